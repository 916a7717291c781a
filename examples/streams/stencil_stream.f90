! A checkpointing stencil with a write stream in Fortran: heat in a square plate, by Jacobi steps.
! The next steps are computed while a checkpoint is written.
!
!   stencil_stream FILE [SIZE STEPS EVERY]
program stencil_stream
  use, intrinsic :: iso_fortran_env, only: error_unit
  use ioweave
  implicit none
  real(8), allocatable :: old(:, :), new(:, :)
  type(iow_write_stream_options) :: options
  type(c_ptr) :: service, results
  character(:), allocatable :: path, why
  integer :: points, steps, every, step, checkpoints
  integer(c_int) :: file
  integer(c_int64_t) :: column_bytes

  call parse
  column_bytes = 8_c_int64_t * points
  options%buffer_bytes = max(column_bytes, 4194304_c_int64_t)
  if (iow_service_open(service, error_text=why) /= 0) call fail(why)
  if (iow_write_stream_open(service, results, options, why) /= 0) call fail(why)
  file = iow_write_stream_create(results, path, error_text=why)
  if (file < 0) call fail(why)

  allocate (old(points, points), new(points, points))
  old = 0
  old(:, 1) = 1 ! one edge is hot
  new = old
  checkpoints = 0
  do step = 1, steps
    call compute
    if (modulo(step, every) == 0) call write_checkpoint
  end do
  if (iow_write_stream_close(results, error_text=why) /= 0) call fail(why) ! all is on the device
  call iow_service_close(service)
  call compare_last
  print '(i0,a,i0,a)', checkpoints, " checkpoints of ", column_bytes * points, " bytes"

contains

  subroutine fail(message)
    character(*), intent(in) :: message
    write (error_unit, '(2a)') "stencil_stream: ", message
    stop 1, quiet=.true.
  end subroutine

  subroutine parse
    character(4096) :: word
    if (command_argument_count() /= 1 .and. command_argument_count() /= 4) then
      call fail("usage: stencil_stream FILE [SIZE STEPS EVERY]")
    end if
    call get_command_argument(1, word)
    path = trim(word)
    points = number(2, 1024)
    steps = number(3, 40)
    every = number(4, 10)
  end subroutine

  integer function number(at, otherwise)
    integer, intent(in) :: at, otherwise
    character(32) :: word
    integer :: status
    number = otherwise
    if (at > command_argument_count()) return
    call get_command_argument(at, word)
    read (word, *, iostat=status) number
    if (status /= 0 .or. number < 1) call fail("not a number from 1 on: "//trim(word))
  end function

  subroutine compute
    integer :: i, j
    !$omp parallel do private(i)
    do j = 2, points - 1
      do i = 2, points - 1
        new(i, j) = 0.25d0 * (old(i - 1, j) + old(i + 1, j) + old(i, j - 1) + old(i, j + 1))
      end do
    end do
    old(:, 2:points - 1) = new(:, 2:points - 1)
  end subroutine

  ! Fills one buffer after the other with whole columns. It waits while all are being written.
  subroutine write_checkpoint
    type(iow_lease) :: lease
    real(8), pointer, contiguous :: room(:)
    integer :: first, columns, fitting
    fitting = int(options%buffer_bytes / column_bytes)
    do first = 1, points, fitting
      columns = min(fitting, points - first + 1)
      if (iow_lease_begin(results, lease, -1_c_int64_t) /= 0) call fail("no lease")
      room => iow_lease_reals(lease)
      room(1:points * columns) = reshape(old(:, first:first + columns - 1), [points * columns])
      if (iow_lease_append(lease, file, column_bytes * columns) /= 0) then
        if (iow_write_stream_error(results, file, why) /= 0) call fail(why)
      end if
    end do
    checkpoints = checkpoints + 1
  end subroutine

  subroutine compare_last
    integer :: unit
    if (checkpoints == 0) return
    open (newunit=unit, file=path, access="stream", form="unformatted", status="old")
    read (unit, pos=1 + (checkpoints - 1) * column_bytes * points) new
    close (unit)
    if (modulo(steps, every) == 0 .and. any(abs(new - old) > 0)) call fail("the file is not so")
  end subroutine

end program

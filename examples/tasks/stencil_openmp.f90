! The checkpointing stencil as OpenMP tasks in Fortran; stencil.h says what it computes and how the
! file is laid out. Its result is that of the C forms to the last bit.
!
!   stencil_openmp [--size N] [--steps N] [--every N] [--blocks N] [--direct] [--recompute] FILE
module stencil
  use, intrinsic :: iso_fortran_env, only: error_unit, output_unit
  use, intrinsic :: iso_c_binding, only: c_intptr_t
  use ioweave
  implicit none

  type :: options_type
    integer :: size = 1024, blocks = 16, steps = 40, every = 10
    logical :: direct = .false., recompute = .false.
    character(:), allocatable :: path
  end type

  ! Blocks are whole rows, and a row is a column of the Fortran array; room(:, b, g) is the memory of
  ! block b of grid g, a multiple of 4096 bytes that begins at such a multiple.
  type :: plate_type
    type(options_type) :: options
    integer :: checkpoints = 0, block_reals = 0
    integer(c_size_t) :: block_bytes = 0
    real(8), pointer, contiguous :: room(:, :, :) => null()
    real(8), pointer, contiguous :: memory(:) => null()
    integer(c_size_t), pointer, contiguous :: results(:, :) => null()
  end type

contains

  subroutine usage(unit)
    integer, intent(in) :: unit
    write (unit, '(a)') "usage: stencil_openmp [--size N] [--steps N] [--every N] [--blocks N]"// &
      " [--direct] [--recompute] FILE"
  end subroutine

  subroutine give_up(message)
    character(*), intent(in) :: message
    write (error_unit, '(a)') message
    call usage(error_unit)
    stop 2, quiet=.true.
  end subroutine

  function argument(at) result(text)
    integer, intent(in) :: at
    character(:), allocatable :: text
    integer :: length
    call get_command_argument(at, length=length)
    allocate (character(length) :: text)
    call get_command_argument(at, text)
  end function

  integer function number(option, at, most) result(value)
    character(*), intent(in) :: option
    integer, intent(in) :: at, most
    character(:), allocatable :: text
    integer :: status
    text = argument(at)
    read (text, *, iostat=status) value
    if (status /= 0 .or. verify(text, "0123456789") /= 0) value = 0
    if (value >= 1 .and. value <= most) return
    write (error_unit, '(2a,i0,3a)') option, " needs a number from 1 to ", most, ", not '", text, "'"
    call usage(error_unit)
    stop 2, quiet=.true.
  end function

  subroutine parse(options)
    type(options_type), intent(out) :: options
    character(:), allocatable :: word
    integer :: at
    at = 1
    do while (at <= command_argument_count())
      word = argument(at)
      at = at + 1
      select case (word)
      case ("--size", "--steps", "--every", "--blocks")
        call take_number(options, word, at)
        at = at + 1
      case ("--direct")
        options%direct = .true.
      case ("--recompute")
        options%recompute = .true.
      case ("--help")
        call usage(output_unit)
        stop 0, quiet=.true.
      case default
        if (word(1:min(1, len(word))) == "-" .or. allocated(options%path)) then
          call give_up("unknown option '"//word//"'")
        end if
        options%path = word
      end select
    end do
    if (.not. allocated(options%path)) call give_up("the FILE is missing")
    if (options%size < 3 .or. options%blocks > options%size) then
      call give_up("--size must be at least 3, and --blocks at most --size")
    end if
  end subroutine

  subroutine take_number(options, word, at)
    type(options_type), intent(inout) :: options
    character(*), intent(in) :: word
    integer, intent(in) :: at
    select case (word)
    case ("--size")
      options%size = number(word, at, 32768)
    case ("--steps")
      options%steps = number(word, at, 1000000)
    case ("--every")
      options%every = number(word, at, 32768)
    case ("--blocks")
      options%blocks = number(word, at, 32768)
    end select
  end subroutine

  subroutine init(plate, options)
    type(plate_type), intent(out) :: plate
    type(options_type), intent(in) :: options
    integer(c_intptr_t) :: beyond
    integer :: rows, first, all, status
    plate%options = options
    plate%checkpoints = (options%steps + options%every - 1) / options%every
    rows = (options%size + options%blocks - 1) / options%blocks
    plate%block_reals = (rows * options%size + 511) / 512 * 512
    plate%block_bytes = 8_c_size_t * plate%block_reals
    all = plate%block_reals * options%blocks * 2
    allocate (plate%memory(all + 512), plate%results(options%blocks, plate%checkpoints), &
      stat=status)
    if (status /= 0) call give_up("not enough memory for the plate; choose a smaller --size")
    beyond = modulo(transfer(c_loc(plate%memory), 0_c_intptr_t), 4096_c_intptr_t)
    first = 1 + int(modulo(4096 - beyond, 4096_c_intptr_t) / 8)
    plate%room(1:plate%block_reals, 0:options%blocks - 1, 0:1) => &
      plate%memory(first:first + all - 1)
    plate%room = 0
    plate%room(1:options%size, 0, :) = 1 ! the upper edge is hot
    plate%results = 0
  end subroutine

  ! The first row of a block, from 0 on; of the block behind the last one it is the number of rows.
  pure integer function first_row(plate, block) result(row)
    type(plate_type), intent(in) :: plate
    integer, intent(in) :: block
    row = int(int(plate%options%size, 8) * block / plate%options%blocks)
  end function

  ! A row of the grid after `step` steps, by the block that it lies in.
  function row_of(plate, step, block, row) result(points)
    type(plate_type), intent(in) :: plate
    integer, intent(in) :: step, block, row
    real(8), pointer, contiguous :: points(:)
    integer :: before
    before = (row - first_row(plate, block)) * plate%options%size
    points => plate%room(before + 1:before + plate%options%size, block, modulo(step, 2))
  end function

  subroutine compute(plate, step, block)
    type(plate_type), intent(in) :: plate
    integer, intent(in) :: step, block
    real(8), pointer, contiguous :: above(:), here(:), below(:), to(:)
    integer :: row, column, first, last
    first = first_row(plate, block)
    last = first_row(plate, block + 1) - 1
    do row = max(first, 1), min(last, plate%options%size - 2) ! edges keep their value
      above => row_of(plate, step - 1, merge(block, block - 1, row > first), row - 1)
      here => row_of(plate, step - 1, block, row)
      below => row_of(plate, step - 1, merge(block, block + 1, row < last), row + 1)
      to => row_of(plate, step, block, row)
      do column = 2, plate%options%size - 1
        to(column) = 0.25d0 * ((above(column) + below(column)) + &
          (here(column - 1) + here(column + 1)))
      end do
    end do
  end subroutine

  ! The number of the checkpoint made after a step, from 1 on, or 0.
  pure integer function checkpoint_of(plate, step) result(checkpoint)
    type(plate_type), intent(in) :: plate
    integer, intent(in) :: step
    checkpoint = 0
    if (modulo(step, plate%options%every) /= 0 .and. step /= plate%options%steps) return
    checkpoint = (step + plate%options%every - 1) / plate%options%every
  end function

  pure integer(c_int64_t) function offset_of(plate, checkpoint, block) result(offset)
    type(plate_type), intent(in) :: plate
    integer, intent(in) :: checkpoint, block
    offset = (int(checkpoint - 1, c_int64_t) * plate%options%blocks + block) * plate%block_bytes
  end function

  real(8) function checksum(plate) result(total)
    type(plate_type), intent(in) :: plate
    real(8), pointer, contiguous :: points(:)
    integer :: block, row, column
    total = 0
    do block = 0, plate%options%blocks - 1
      do row = first_row(plate, block), first_row(plate, block + 1) - 1
        points => row_of(plate, plate%options%steps, block, row)
        do column = 1, plate%options%size
          total = total + points(column)
        end do
      end do
    end do
  end function

  ! Whether a checkpoint of the file holds what the grid of its step, which is `step`, holds now.
  logical function file_holds(plate, service, fd, step) result(same)
    type(plate_type), intent(in) :: plate
    type(c_ptr), intent(in) :: service
    integer(c_int), intent(in) :: fd
    integer, intent(in) :: step
    type(plate_type) :: other ! for its memory, which is as aligned as the first one's
    integer :: block
    integer(c_size_t) :: got
    call init(other, plate%options)
    same = .true.
    do block = 0, plate%options%blocks - 1
      got = iow_pread_ptr(service, fd, c_loc(other%room(1, block, 0)), plate%block_bytes, &
        offset_of(plate, checkpoint_of(plate, step), block))
      same = got == plate%block_bytes .and. all(.not. abs(other%room(:, block, 0) - &
        plate%room(:, block, modulo(step, 2))) > 0)
      if (same) cycle
      write (error_unit, '(2(a,i0),a)') "block ", block, " of checkpoint ", &
        checkpoint_of(plate, step), " differs"
      exit
    end do
    deallocate (other%memory, other%results)
  end function

  ! Computes all again without tasks, and compares every checkpoint of the file on the way.
  logical function recomputed(plate, service, fd) result(same)
    type(plate_type), intent(in) :: plate
    type(c_ptr), intent(in) :: service
    integer(c_int), intent(in) :: fd
    type(plate_type) :: again
    integer :: step, block
    call init(again, plate%options)
    same = .true.
    do step = 1, plate%options%steps
      do block = 0, plate%options%blocks - 1
        call compute(again, step, block)
      end do
      if (checkpoint_of(plate, step) > 0) same = file_holds(again, service, fd, step)
      if (.not. same) exit
    end do
    deallocate (again%memory, again%results)
  end function

  logical function writes_ended_well(plate) result(well)
    type(plate_type), intent(in) :: plate
    integer :: checkpoint, block
    well = .true.
    do checkpoint = 1, plate%checkpoints
      do block = 1, plate%options%blocks
        associate (result => plate%results(block, checkpoint))
          if (result == plate%block_bytes) cycle
          well = .false.
          write (error_unit, '(2(a,i0),2a)') "block ", block - 1, " of checkpoint ", checkpoint, &
            ": ", iow_error_text(min(result, 0_c_size_t))
        end associate
      end do
    end do
  end function

  subroutine report(plate)
    type(plate_type), intent(in) :: plate
    character(24) :: total
    write (total, '(es16.10)') checksum(plate)
    total(index(total, "E"):index(total, "E")) = "e"
    print '(3a,4(i0,a))', "checksum ", trim(total), " after ", plate%options%steps, " steps, ", &
      plate%checkpoints, " checkpoints of ", plate%options%blocks, " blocks of ", &
      plate%block_bytes, " bytes"
  end subroutine

end module

program stencil_openmp
  use stencil
  use ioweave_openmp
  use omp_lib
  implicit none
  type(options_type) :: options
  type(plate_type) :: plate
  type(c_ptr) :: service
  character(:), allocatable :: why
  integer(c_int) :: fd
  logical :: well

  call parse(options)
  if (iow_omp_check(why) /= 0) call fail(why)
  if (iow_service_open(service, error_text=why) /= 0) call fail(why)
  call init(plate, options)
  fd = iow_open_file(options%path, IOW_READ_WRITE + IOW_CREATE + IOW_TRUNCATE + &
    merge(iow_direct_flag(), 0_c_int, options%direct))
  if (fd < 0) call fail("cannot create "//options%path//": "//iow_error_text(int(fd, c_size_t)))
  call all_steps(plate)
  well = writes_ended_well(plate)
  if (well) well = file_holds(plate, service, fd, options%steps)
  if (well .and. options%recompute) well = recomputed(plate, service, fd)
  if (iow_close_file(fd) /= 0) well = .false.
  call iow_service_close(service)
  if (.not. well) stop 1, quiet=.true.
  call report(plate)
  deallocate (plate%memory, plate%results)

contains

  subroutine fail(message)
    character(*), intent(in) :: message
    write (error_unit, '(2a)') "stencil_openmp: ", message
    stop 1, quiet=.true.
  end subroutine

  subroutine all_steps(plate)
    type(plate_type), intent(in) :: plate
    integer :: step, block
    !$omp parallel
    !$omp single
    do step = 1, plate%options%steps
      do block = 0, plate%options%blocks - 1
        call compute_in_task(plate, plate%room, step, block)
      end do
      if (checkpoint_of(plate, step) == 0) cycle
      do block = 0, plate%options%blocks - 1
        call write_in_task(plate, plate%room, step, block)
      end do
    end do
    !$omp end single
    !$omp end parallel
  end subroutine

  ! `room` is that of the plate: dependencies name elements of arrays.
  subroutine compute_in_task(plate, room, step, block)
    type(plate_type), intent(in), target :: plate
    real(8), intent(in) :: room(:, 0:, 0:)
    integer, intent(in) :: step, block
    integer :: old, new, above, below
    old = modulo(step - 1, 2)
    new = modulo(step, 2)
    above = max(block - 1, 0)
    below = min(block + 1, plate%options%blocks - 1)
    !$omp task depend(in: room(1, above, old), room(1, block, old), room(1, below, old)) &
    !$omp depend(out: room(1, block, new)) shared(plate) firstprivate(step, block)
    call compute(plate, step, block)
    !$omp end task
  end subroutine

  subroutine write_in_task(plate, room, step, block)
    type(plate_type), intent(in), target :: plate
    real(8), intent(in), target, asynchronous, contiguous :: room(:, 0:, 0:)
    integer, intent(in) :: step, block
    integer(omp_event_handle_kind) :: event
    integer(c_size_t), pointer, asynchronous :: result
    type(c_ptr) :: from
    integer(c_size_t) :: bytes
    integer(c_int64_t) :: offset
    integer(c_int) :: error
    result => plate%results(block + 1, checkpoint_of(plate, step))
    from = c_loc(room(1, block, modulo(step, 2)))
    bytes = plate%block_bytes
    offset = offset_of(plate, checkpoint_of(plate, step), block)
    !$omp task detach(event) depend(in: room(1, block, modulo(step, 2))) private(error) &
    !$omp firstprivate(result, from, bytes, offset)
    error = iow_omp_begin(service, event)
    result = error
    if (error == 0) error = iow_ta_pwrite_ptr(service, fd, from, bytes, offset, result)
    if (iow_omp_end(service) /= 0) continue ! as the beginning
    !$omp end task
  end subroutine

end program

! Sums blocks of a file that lie scattered in it. Two ways: by a plan of the reads to come, and by a
! generator that is asked for them as late as possible.
!
!   prefetch FILE BLOCKS
module blocks_to_come
  use ioweave
  implicit none
  integer(c_size_t), parameter :: block_bytes = 65536

  type :: scattered
    integer(c_int) :: fd = -1
    integer(c_int64_t) :: blocks = 0
    integer(c_int64_t) :: next = 0
  end type
contains
  ! Where the i-th block lies: no read-ahead of the kernel's finds it.
  pure integer(c_int64_t) function place(i, blocks)
    integer(c_int64_t), intent(in) :: i, blocks
    place = modulo(i * 7919, blocks) * block_bytes
  end function

  ! Names the next read.
  integer(c_int) function next_block(read, user) bind(C)
    type(iow_planned_read), intent(inout) :: read
    type(c_ptr), value :: user
    type(scattered), pointer :: order
    call c_f_pointer(user, order)
    next_block = 0
    if (order%next == order%blocks) return
    read%fd = order%fd
    read%offset = place(order%next, order%blocks)
    read%bytes = block_bytes
    order%next = order%next + 1
    next_block = 1
  end function
end module

program prefetch
  use, intrinsic :: iso_c_binding, only: c_funloc, c_int8_t
  use, intrinsic :: iso_fortran_env, only: error_unit
  use ioweave
  use blocks_to_come
  implicit none
  type(scattered), target :: order
  type(c_ptr) :: service, plan
  character(:), allocatable :: why
  integer(c_int64_t) :: i

  call parse
  if (iow_service_open(service, error_text=why) /= 0) call fail(why)

  if (iow_plan_open(service, plan, error_text=why) /= 0) call fail(why)
  do i = 0, order%blocks - 1
    call expect(iow_plan_add(plan, order%fd, place(i, order%blocks), int(block_bytes, c_int64_t)))
  end do
  print '(a,i0)', "by plan: ", sum_of_blocks()
  call iow_plan_close(plan)

  if (iow_plan_open(service, plan, error_text=why) /= 0) call fail(why)
  call expect(iow_plan_generate(plan, c_funloc(next_block), c_loc(order)))
  print '(a,i0)', "by generator: ", sum_of_blocks()
  call iow_plan_close(plan)

  call iow_service_close(service)
  if (iow_close_file(order%fd) /= 0) call fail("the file cannot be closed")

contains

  ! The sum is computed while the next blocks are read.
  integer(c_int64_t) function sum_of_blocks() result(total)
    integer(c_int8_t) :: bytes(block_bytes)
    integer(c_size_t) :: got
    total = 0
    do i = 0, order%blocks - 1
      got = iow_plan_read(plan, order%fd, bytes, block_bytes, place(i, order%blocks))
      if (got < 0) call fail(iow_error_text(got))
      total = total + sum(iand(int(bytes(1:got), c_int64_t), 255_c_int64_t))
    end do
  end function

  subroutine expect(error)
    integer(c_int), intent(in) :: error
    if (error /= 0) call fail(iow_error_text(error))
  end subroutine

  subroutine fail(message)
    character(*), intent(in) :: message
    write (error_unit, '(2a)') "prefetch: ", message
    stop 1, quiet=.true.
  end subroutine

  subroutine parse
    character(4096) :: path, number
    integer :: status
    call get_command_argument(1, path)
    call get_command_argument(2, number)
    read (number, *, iostat=status) order%blocks
    if (command_argument_count() /= 2 .or. status /= 0 .or. order%blocks < 1) then
      call fail("usage: prefetch FILE BLOCKS")
    end if
    order%fd = iow_open_file(path, IOW_READ_ONLY)
    if (order%fd < 0) call fail(trim(path)//": "//iow_error_text(order%fd))
  end subroutine

end program

! Reads a file from beginning to end, chunk by chunk, by stream access, and computes on each chunk.
! The same as chunk_reader.cpp, which says what the computation is. Words of 8 bytes are read: the
! rest of a file whose size is no multiple of 8 is not.
!
!   bench_chunk_reader_fortran FILE CHUNK_BYTES COMPUTE_US
module thread_clock
  use, intrinsic :: iso_c_binding, only: c_int, c_long
  use, intrinsic :: iso_fortran_env, only: int64
  implicit none
  private
  public :: thread_cpu_ns

  type, bind(C) :: timespec
    integer(c_long) :: seconds, nanoseconds
  end type

  integer(c_int), parameter :: thread_cputime_id = 3 ! of <time.h>

  interface
    integer(c_int) function clock_gettime(clock, time) bind(C)
      import :: c_int, timespec
      integer(c_int), value :: clock
      type(timespec), intent(out) :: time
    end function
  end interface
contains
  integer(int64) function thread_cpu_ns()
    type(timespec) :: used
    if (clock_gettime(thread_cputime_id, used) /= 0) error stop "chunk_reader: clock_gettime"
    thread_cpu_ns = int(used%seconds, int64) * 1000000000_int64 + int(used%nanoseconds, int64)
  end function
end module

program chunk_reader
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use thread_clock
  implicit none
  integer, parameter :: word_bytes = 8
  character(4096) :: path
  integer(int64), allocatable :: chunk(:)
  integer(int64) :: file_bytes, words, done, count, chunks, compute_ns, checksum
  integer(int64) :: begin, read_end, compute_end, read_ticks, compute_ticks, ticks_per_s
  integer :: file

  if (command_argument_count() /= 3) &
    error stop "usage: bench_chunk_reader_fortran FILE CHUNK_BYTES COMPUTE_US"
  call get_command_argument(1, path)
  allocate (chunk(number(2) / word_bytes), source=0_int64)
  if (size(chunk) == 0) error stop "chunk_reader: a chunk has 8 bytes or more"
  compute_ns = 1000 * number(3)

  open (newunit=file, file=trim(path), access="stream", form="unformatted", action="read", &
        status="old")
  inquire (unit=file, size=file_bytes)
  words = file_bytes / word_bytes
  done = 0
  chunks = 0
  checksum = 0
  read_ticks = 0
  compute_ticks = 0
  call system_clock(begin, ticks_per_s)
  do while (done < words)
    count = min(size(chunk, kind=int64), words - done)
    read (file) chunk(:count)
    call system_clock(read_end)
    call compute(chunk(:count))
    call system_clock(compute_end)
    read_ticks = read_ticks + read_end - begin
    compute_ticks = compute_ticks + compute_end - read_end
    begin = compute_end
    done = done + count
    chunks = chunks + 1
  end do
  close (file)
  print '(a,i0,a,i0,a,f20.9,a,f20.9,a,z16.16,a)', '{"bytes": ', done * word_bytes, &
    ', "chunks": ', chunks, ', "read_s":', seconds(read_ticks), ', "compute_s":', &
    seconds(compute_ticks), ', "checksum": "', checksum, '"}'
contains
  subroutine compute(values)
    integer(int64), intent(in) :: values(:)
    integer(int64) :: start
    if (compute_ns == 0) return
    start = thread_cpu_ns()
    checksum = ieor(ishftc(checksum, 1), iparity(values))
    do while (thread_cpu_ns() - start < compute_ns)
      call spin
    end do
  end subroutine

  ! Takes about 10 us: the clock of the thread is a system call, which few computations make.
  subroutine spin
    integer, volatile :: turns
    turns = 8000
    do while (turns /= 0)
      turns = turns - 1
    end do
  end subroutine

  real(real64) function seconds(ticks)
    integer(int64), intent(in) :: ticks
    seconds = real(ticks, real64) / real(ticks_per_s, real64)
  end function

  integer(int64) function number(argument)
    integer, intent(in) :: argument
    character(32) :: text
    integer :: wrong
    call get_command_argument(argument, text)
    read (text, *, iostat=wrong) number
    if (wrong /= 0 .or. number < 0) error stop "chunk_reader: not a number of 0 or more"
  end function
end program

! The Fortran modules: every call, and tasks on libgomp. Status 0, 1 after a message, or 77 with the
! reason where detach cannot be had.
module checks
  use, intrinsic :: iso_fortran_env, only: error_unit
  implicit none
contains
  subroutine check(holds, what)
    logical, intent(in) :: holds
    character(*), intent(in) :: what
    if (holds) return
    write (error_unit, '(2a)') "not so: ", what
    stop 1
  end subroutine

  ! What comes back from a file is equal or wrong, so this is no comparison to be warned of.
  elemental logical function same(a, b)
    real(8), intent(in) :: a, b
    same = .not. (a < b .or. a > b)
  end function
end module

program fortran_test
  use checks
  use ioweave
  use ioweave_openmp
  use omp_lib
  implicit none
  character(*), parameter :: path = "fortran_test.data"
  character(:), allocatable :: why
  type(c_ptr) :: service
  integer(c_int) :: fd, team

  if (iow_omp_check(why) /= 0) then
    print '(2a)', "skipped: ", why
    stop 77
  end if
  call opening
  fd = iow_open_file(path, IOW_READ_WRITE + IOW_CREATE + IOW_TRUNCATE)
  call check(fd >= 0, "a file is created")
  call blocking_calls
  call errors
  call vectors
  call admission
  call write_streams
  call write_stream_errors
  do team = 1, 4
    call tasks(team)
  end do
  call check(iow_close_file(fd) == 0, "the file is closed")
  call check(iow_open_file("no/such/file", IOW_READ_ONLY) == -2, "a missing file is ENOENT")
  call iow_service_close(service)
  call delete_file

contains

  subroutine opening
    type(iow_options) :: options
    character(:), allocatable :: text
    options%threads = 1000
    call check(iow_service_open(service, options, text) == -22, "an option out of range is EINVAL")
    call check(.not. c_associated(service), "and gives no service")
    call check(index(text, "threads") > 0, "and is named: "//text)
    options%threads = 2
    options%engine = IOW_ENGINE_THREADS
    call check(iow_service_open(service, options) == 0, "a service with options")
    call check(iow_service_engine(service) == "threads", "the options arrive")
    call iow_service_close(service)
    call check(iow_service_open(service) == 0, "a service without options")
    call check(len(iow_service_engine(service, text)) > 0, "it has an engine")
    call check(iow_service_tasks(service, text) == "none", "and no task runtime")
    call check(index(iow_version(), ".") > 0, "a version")
  end subroutine

  subroutine admission
    type(iow_device_options) :: disk
    type(iow_flow_options) :: saves
    character(:), allocatable :: text
    integer(c_int) :: flow
    integer(c_int64_t) :: operation, next
    disk%budget_mb_per_s = 100
    saves%device = iow_device_create(service, "disk", disk, text)
    call check(saves%device > 0, "a device: "//text)
    call check(iow_flow_create(service, "saves", saves, "fast", text) == -22, "no such constraint")
    call check(index(text, "'fast'") > 0, "which is named: "//text)
    flow = iow_flow_create(service, "saves", saves, "climb", text)
    call check(flow > 0, "a flow that climbs: "//text)
    operation = iow_admit(service, flow, 4096_c_int64_t)
    call check(operation > 0, "an operation is admitted")
    call check(iow_finish(service, operation, 4096_c_int64_t) == 0, "and ends")
    call check(iow_finish(service, operation, 4096_c_int64_t) == -2, "once")
    next = iow_admit(service, 0_c_int, 1_c_int64_t)
    call check(next > operation, "a flow without a constraint")
    call check(iow_finish(service, next, -5_c_int64_t) == 0, "which fails")
    call check(iow_admit(service, 99_c_int, 1_c_int64_t) == -22, "an unknown flow is EINVAL")
  end subroutine

  subroutine write_streams
    type(iow_write_stream_options) :: options
    type(iow_write_file_options) :: of_file
    type(iow_write_stream_stats) :: stats
    type(iow_lease) :: lease
    type(c_ptr) :: stream
    integer(c_int) :: file, error
    real(8) :: doubles(512, 4), doubles_read(512, 4)
    real(8), pointer, contiguous :: room(:)
    integer :: column
    call random_number(doubles)
    options%buffer_bytes = 4096
    options%budget_bytes = 8192
    call check(iow_write_stream_open(service, stream, options) == 0, "a stream is opened")
    of_file%expected_bytes = 65536
    file = iow_write_stream_create(stream, "fortran_test.stream", of_file)
    call check(file >= 0, "it has a file")
    do column = 1, 3
      call check(iow_lease_begin(stream, lease, -1_c_int64_t) == 0, "a lease")
      call check(lease%bytes == 4096, "of a page")
      room => iow_lease_reals(lease)
      call check(size(room) == 512, "which is an array")
      room = doubles(:, column)
      if (column < 3) error = iow_lease_append(lease, file, 4096_c_int64_t)
      if (column == 3) error = iow_lease_write(lease, file, 4096_c_int64_t, 8192_c_int64_t)
      call check(error == 0, "is handed over")
      call check(.not. c_associated(lease%data), "and is none afterwards")
    end do
    call check(iow_lease_begin(stream, lease, 0_c_int64_t) /= -22, "another lease, or none yet")
    call iow_lease_end(lease)
    call check(iow_write_stream_flush(stream, IOW_ALL_FILES) == 0, "a flush")
    call check(iow_write_stream_copy(stream, file, doubles(1, 4), 4096_c_int64_t, &
      12288_c_int64_t) == 0, "a copy")
    call check(iow_write_stream_sync(stream, file) == 0, "a sync")
    call check(iow_write_stream_get_stats(stream, stats) == 0, "statistics")
    call check(stats%size == 96 .and. stats%buffers == 2, "all of them")
    call check(stats%written_bytes == 16384, "count what was written")
    call check(iow_write_stream_end(stream, file) == 0, "the file ends")
    call check(iow_write_stream_close(stream) == 0, "the stream is closed")
    call check(.not. c_associated(stream), "and is gone")
    call read_back("fortran_test.stream", doubles_read)
    call check(all(same(doubles, doubles_read)), "what was written comes back")
  end subroutine

  subroutine write_stream_errors
    type(iow_write_stream_options) :: options
    type(iow_write_file_options) :: of_file
    type(iow_lease) :: lease
    type(c_ptr) :: stream
    character(:), allocatable :: text
    integer(c_int) :: file
    options%buffer_bytes = 1
    call check(iow_write_stream_open(service, stream, options, text) == -22, "a tiny buffer")
    call check(index(text, "buffer_bytes") > 0, "which is named: "//text)
    options%buffer_bytes = 4096
    options%budget_bytes = 4096
    options%overflow = IOW_OVERFLOW_FAIL
    call check(iow_write_stream_open(service, stream, options, text) == 0, "a stream: "//text)
    call check(iow_write_stream_create(stream, "no/such/file", error_text=text) == -2, "ENOENT")
    call check(index(text, "no/such/file") > 0, "which names the path: "//text)
    of_file%exclusive = 1
    file = iow_write_stream_create(stream, "fortran_test.stream", of_file)
    call check(file == -17, "a file that exists is EEXIST")
    file = iow_write_stream_create(stream, "fortran_test.stream")
    call check(iow_lease_begin(stream, lease, -1_c_int64_t) == 0, "a lease")
    call check(iow_lease_append(lease, file, 4097_c_int64_t) == -22, "more bytes than it has")
    call check(iow_write_stream_flush(stream, 99_c_int) == -9, "no such file is EBADF")
    call check(iow_write_stream_error(stream, file, text) == 0, "the file has no error: "//text)
    call check(iow_write_stream_close(stream, durable=.false., error_text=text) == 0, "the end")
    call check(len(text) == 0, "says nothing: "//text)
  end subroutine

  subroutine read_back(name, into)
    character(*), intent(in) :: name
    real(8), intent(out) :: into(:, :)
    integer :: unit
    open (newunit=unit, file=name, access="stream", form="unformatted", status="old")
    read (unit) into
    close (unit)
  end subroutine

  subroutine blocking_calls
    real(8) :: doubles(100, 3), doubles_read(100, 3)
    real(4) :: floats(50), floats_read(50)
    integer :: integers(10), integers_read(10), i
    integer(c_int) :: plain(8)
    call random_number(doubles)
    call random_number(floats)
    integers = [(i * i, i=1, 10)]
    call check(iow_pwrite(service, fd, doubles, 2400_c_size_t, 0_c_int64_t) == 2400, "real(8)")
    call check(iow_pwrite(service, fd, floats, 200_c_size_t, 2400_c_int64_t) == 200, "real(4)")
    call check(iow_pwrite(service, fd, integers, 40_c_size_t, 2600_c_int64_t) == 40, "integer")
    call check(iow_fsync(service, fd) == 0, "fsync")
    call check(iow_fdatasync(service, fd) == 0, "fdatasync")
    call check(iow_pread(service, fd, doubles_read, 2400_c_size_t, 0_c_int64_t) == 2400, "read")
    call check(iow_pread(service, fd, floats_read, 200_c_size_t, 2400_c_int64_t) == 200, "read")
    call check(iow_pread(service, fd, integers_read, 40_c_size_t, 2600_c_int64_t) == 40, "read")
    call check(all(same(doubles, doubles_read)), "real(8) arrays come back")
    call check(all(same(real(floats, 8), real(floats_read, 8))), "real(4) arrays come back")
    call check(all(integers == integers_read), "integer arrays come back")
    call check(iow_pread(service, fd, doubles_read(1, 2), 800_c_size_t, 0_c_int64_t) == 800, "part")
    call check(all(same(doubles_read(:, 2), doubles(:, 1))), "a column, by its first element")
    call check(iow_pread(service, fd, plain, 32_c_size_t, 2640_c_int64_t) == 0, "end of file")
    call by_address
  end subroutine

  subroutine by_address
    real(8), target :: doubles(8), doubles_read(8)
    call random_number(doubles)
    call check(iow_pwrite_ptr(service, fd, c_loc(doubles), 64_c_size_t, 0_c_int64_t) == 64, "write")
    call check(iow_pread_ptr(service, fd, c_loc(doubles_read), 64_c_size_t, 0_c_int64_t) == 64, &
      "read")
    call check(all(same(doubles, doubles_read)), "arrays by their address")
  end subroutine

  subroutine errors
    integer :: nothing(1)
    integer(c_size_t) :: got
    integer(c_size_t), target, asynchronous :: result
    got = iow_pread(service, -1_c_int, nothing, 4_c_size_t, 0_c_int64_t)
    call check(got == -9, "EBADF")
    call check(iow_error_text(got) == "Bad file descriptor", iow_error_text(got))
    call check(iow_error_text(-9_c_int) == iow_error_text(got), "the same of any kind")
    result = 1
    call check(iow_ta_fsync(service, fd, result) == -3, "outside a task it is ESRCH")
    call check(result == -3, "also in the result")
    call check(iow_task_end(service) == -3, "and so is an end")
    call check(iow_omp_end(service) == -3, "and so is an end of an OpenMP task")
  end subroutine

  subroutine vectors
    real(8), target, asynchronous :: doubles(30), doubles_read(30), bound(30)
    type(iow_iovec) :: parts(2)
    integer(c_size_t), target, asynchronous :: results(2)
    type(iow_task_stats) :: before, after
    integer(omp_event_handle_kind) :: event
    call random_number(doubles)
    parts = [iow_iovec(c_loc(doubles(1)), 80), iow_iovec(c_loc(doubles(11)), 160)]
    call check(iow_pwritev(service, fd, parts, 2_c_int, 8_c_int64_t) == 240, "pwritev")
    parts = [iow_iovec(c_loc(doubles_read(1)), 160), iow_iovec(c_loc(doubles_read(21)), 80)]
    call check(iow_preadv(service, fd, parts, 2_c_int, 8_c_int64_t) == 240, "preadv")
    call check(all(same(doubles, doubles_read)), "parts come back")
    call check(iow_service_task_stats(service, before) == 0, "statistics")
    !$omp parallel num_threads(2)
    !$omp single
    !$omp task detach(event) depend(out: results) firstprivate(parts)
    call check(iow_omp_begin(service, event) == 0, "begin")
    parts = [iow_iovec(c_loc(doubles(1)), 80), iow_iovec(c_loc(doubles(11)), 160)]
    call check(iow_ta_pwritev(service, fd, parts, 2_c_int, 16_c_int64_t, results(1)) == 0, "w")
    call check(iow_omp_end(service) == 0, "end")
    !$omp end task
    !$omp task detach(event) depend(inout: results) firstprivate(parts)
    call check(iow_omp_begin(service, event) == 0, "begin")
    parts = [iow_iovec(c_loc(bound(1)), 160), iow_iovec(c_loc(bound(21)), 80)]
    call check(iow_ta_preadv(service, fd, parts, 2_c_int, 16_c_int64_t, results(2)) == 0, "r")
    call check(iow_omp_end(service) == 0, "end")
    !$omp end task
    !$omp end single
    !$omp end parallel
    call check(all(results == 240), "parts in tasks")
    call check(all(same(doubles, bound)), "parts come back from tasks")
    call check(iow_service_task_stats(service, after) == 0, "statistics")
    call check(after%at_once + after%bound == before%at_once + before%bound + 2, "both are counted")
    call check(after%size == 72 .and. after%bound_pending == 0, "of this version")
  end subroutine

  ! Blocks are written, synchronised and read in tasks that depend on each other; some of the reads
  ! go past the page cache and so are pending when the task ends.
  subroutine tasks(threads)
    integer(c_int), intent(in) :: threads
    integer, parameter :: blocks = 100, reals = 512
    integer(c_size_t), parameter :: bytes = 8 * reals
    real(8), target, asynchronous :: written(reals, blocks), plain(reals, blocks)
    integer(c_size_t), target, asynchronous :: results(4, blocks)
    real(8), pointer, contiguous, asynchronous :: aligned(:, :)
    real(8), target :: room(reals * (blocks + 1))
    integer(omp_event_handle_kind) :: event
    integer(c_int64_t) :: offset
    integer(c_int) :: direct
    integer :: i, wrong
    aligned => aligned_part(room, reals, blocks)
    direct = iow_open_file(path, IOW_READ_ONLY + iow_direct_flag())
    if (direct < 0) direct = iow_open_file(path, IOW_READ_ONLY) ! no O_DIRECT here
    written = 0
    wrong = 0
    !$omp parallel num_threads(threads)
    !$omp single
    do i = 1, blocks
      offset = int(i - 1, c_int64_t) * bytes
      !$omp task depend(out: written(1, i))
      written(:, i) = i
      !$omp end task

      !$omp task detach(event) depend(in: written(1, i)) depend(out: results(1, i)) &
      !$omp firstprivate(offset)
      call check(iow_omp_begin(service, event) == 0, "begin")
      call check(iow_ta_pwrite(service, fd, written(:, i), bytes, offset, results(1, i)) == 0, "w")
      call check(iow_omp_end(service) == 0, "end")
      !$omp end task

      !$omp task detach(event) depend(in: results(1, i)) depend(out: results(2, i))
      call check(iow_omp_begin(service, event) == 0, "begin")
      call check(iow_ta_fdatasync(service, fd, results(2, i)) == 0, "fdatasync")
      call check(iow_omp_end(service) == 0, "end")
      !$omp end task

      !$omp task detach(event) depend(in: results(2, i)) depend(out: plain(1, i)) &
      !$omp firstprivate(offset)
      call check(iow_omp_begin(service, event) == 0, "begin")
      call check(iow_ta_pread(service, fd, plain(1, i), bytes, offset, results(3, i)) == 0, "r")
      call check(iow_ta_pread_ptr(service, direct, c_loc(aligned(1, i)), bytes, offset, &
        results(4, i)) == 0, "r")
      call check(iow_omp_end(service) == 0, "end")
      !$omp end task

      !$omp task depend(in: plain(1, i)) shared(wrong)
      if (.not. all(same(plain(:, i), real(i, 8)) .and. same(aligned(:, i), real(i, 8)))) then
        !$omp atomic
        wrong = wrong + 1
      end if
      if (any(results(1:4:3, i) /= bytes) .or. results(2, i) /= 0) then
        !$omp atomic
        wrong = wrong + 1
      end if
      !$omp end task
    end do
    !$omp end single
    !$omp end parallel
    call check(wrong == 0, "successors see the data and the results")
    call check(iow_close_file(direct) == 0, "close")
  end subroutine

  ! The part of `room` that begins at a multiple of 4096 bytes.
  function aligned_part(room, reals, blocks) result(part)
    use, intrinsic :: iso_c_binding, only: c_intptr_t
    real(8), intent(in), target, contiguous :: room(:)
    integer, intent(in) :: reals, blocks
    real(8), pointer, contiguous :: part(:, :)
    integer(c_intptr_t) :: beyond
    integer :: first
    beyond = modulo(transfer(c_loc(room), 0_c_intptr_t), 4096_c_intptr_t)
    first = 1 + int(modulo(4096 - beyond, 4096_c_intptr_t) / 8)
    part(1:reals, 1:blocks) => room(first:first + reals * blocks - 1)
  end function

  subroutine delete_file
    integer :: unit
    open (newunit=unit, file=path, status="old")
    close (unit, status="delete")
    open (newunit=unit, file="fortran_test.stream", status="old")
    close (unit, status="delete")
  end subroutine

end program

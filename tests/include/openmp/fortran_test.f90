! The Fortran modules: every call, and tasks on libgomp. Status 0, 1 after a message, or 77 with the
! reason where detach cannot be had.
module checks
  use, intrinsic :: iso_fortran_env, only: error_unit
  use ioweave
  implicit none

  ! Reads of 800 bytes that a generator names: so many are left, the last ones first.
  type :: reads_to_come
    integer(c_int) :: fd = -1
    integer(c_int) :: left = 0
  end type
contains
  integer(c_int) function next_read(read, user) bind(C)
    type(iow_planned_read), intent(inout) :: read
    type(c_ptr), value :: user
    type(reads_to_come), pointer :: reads
    call c_f_pointer(user, reads)
    next_read = merge(1, 0, reads%left > 0)
    if (next_read == 0) return
    reads%left = reads%left - 1
    read%fd = reads%fd
    read%offset = 800_c_int64_t * reads%left
    read%bytes = 800
  end function

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
  call spreads
  call spread_errors
  call read_plain_files
  call plans
  call loop_ahead
  call plan_errors
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

  subroutine spreads
    type(iow_write_stream_options) :: options
    type(iow_spread_options) :: of_spread
    type(iow_spread_stats) :: stats
    type(iow_read_stream_stats) :: read_stats
    type(iow_lease) :: lease
    type(iow_read_lease) :: found
    type(c_ptr) :: stream, spread, results
    character(:), allocatable :: text
    integer(c_int64_t) :: item
    real(8) :: doubles(512, 5)
    real(8), pointer, contiguous :: room(:)
    integer :: column
    call random_number(doubles)
    options%buffer_bytes = 4096
    options%budget_bytes = 16384
    call check(iow_write_stream_open(service, stream, options) == 0, "a stream for a spread")
    of_spread%placement = IOW_PLACE_BY_LOAD
    of_spread%on_failure = IOW_FAILURE_MOVE
    call check(iow_spread_create(stream, spread, "fortran_test.manifest", &
      [character(32) :: "fortran_test.0", "fortran_test.first"], of_spread, text) == 0, &
      "a spread over two files: "//text)
    do column = 1, 4
      call check(iow_lease_begin(stream, lease, -1_c_int64_t) == 0, "a lease for it")
      room => iow_lease_reals(lease)
      room = doubles(:, column)
      item = 99
      if (column < 4) call check(iow_spread_append(lease, spread, 4096_c_int64_t, item) == 0, &
        "becomes an item")
      if (column == 4) call check(iow_spread_append(lease, spread, 4096_c_int64_t) == 0, &
        "becomes an item, whose number nobody wants")
      call check(item == merge(column - 1, 99, column < 4), "with its number")
    end do
    call check(iow_spread_copy(spread, doubles(1, 5), 800_c_int64_t, item) == 0, "a copy, too")
    call check(item == 4, "with its number")
    call check(iow_spread_get_stats(spread, stats) == 0, "statistics of the spread")
    call check(stats%size == 48 .and. stats%targets == 2, "all of them")
    call check(stats%items == 5 .and. stats%bytes == 17184, "count what was appended")
    call check(iow_spread_end(spread, error_text=text) == 0, "the spread ends: "//text)
    call check(.not. c_associated(spread), "and is gone")
    call check(iow_write_stream_close(stream) == 0, "as is its stream")

    call check(iow_read_stream_open(service, results, "fortran_test.manifest", error_text=text) &
      == 0, "its manifest is opened: "//text)
    do column = 1, 5
      call check(iow_read_stream_next(results, found, -1_c_int64_t) == 1, "the next item")
      call check(found%item == column - 1 .and. found%offset == 0, "comes in order")
      call check(found%item_bytes == merge(4096, 800, column < 5), "and as long as it was")
      room => iow_read_lease_reals(found)
      call check(size(room) == merge(512, 100, column < 5), "as an array")
      call check(all(same(room, doubles(1:size(room), column))), "of what was written")
      call iow_read_lease_end(found)
      call check(.not. c_associated(found%data), "and the lease has ended")
    end do
    call check(iow_read_stream_next(results, found, -1_c_int64_t) == 0, "and no more")
    call check(iow_read_stream_get_stats(results, read_stats) == 0, "statistics of the reading")
    call check(read_stats%size == 104 .and. read_stats%items == 5, "all of them")
    call check(read_stats%read_bytes == 17184 .and. read_stats%lost_items == 0, "and right")
    call check(iow_read_stream_close(results) == 0, "the stream is closed")
    call check(.not. c_associated(results), "and gone")
  end subroutine

  subroutine spread_errors
    type(iow_read_stream_options) :: options
    type(iow_read_lease) :: found
    type(c_ptr) :: stream, spread, results
    character(:), allocatable :: text
    integer(c_int) :: error
    logical :: exists
    call check(iow_write_stream_open(service, stream) == 0, "a stream")
    error = iow_spread_create(stream, spread, "no/such/manifest", ["fortran_test.0"], &
      error_text=text)
    call check(error == -2, "a folder that is missing is ENOENT")
    call check(index(text, "no/such/manifest") > 0, "which is named: "//text)
    call check(.not. c_associated(spread), "there is no spread")
    call check(iow_spread_create(stream, spread, "fortran_test.abandoned", ["fortran_test.2"]) &
      == 0, "a spread")
    call iow_spread_abandon(spread)
    call check(.not. c_associated(spread), "that was abandoned")
    inquire (file="fortran_test.abandoned", exist=exists)
    call check(.not. exists, "has no manifest")
    call check(iow_write_stream_close(stream) == 0, "the end of the stream")
    error = iow_read_stream_open(service, results, "fortran_test.abandoned", error_text=text)
    call check(error == -2 .and. index(text, "abandoned") > 0, "so none can be opened: "//text)
    options%buffer_bytes = 1
    error = iow_read_stream_open(service, results, "fortran_test.manifest", options, text)
    call check(error == -22 .and. index(text, "buffer_bytes") > 0, "a tiny buffer: "//text)

    call delete_one("fortran_test.first")
    call check(iow_read_stream_open(service, results, "fortran_test.manifest") == 0, "the rest")
    do
      error = iow_read_stream_next(results, found, -1_c_int64_t)
      if (error <= 0) exit
      call iow_read_lease_end(found)
    end do
    call check(error == -2, "what is missing is ENOENT")
    text = iow_read_stream_explain(results, found, error)
    call check(index(text, "fortran_test.first") > 0, "at its item: "//text)
    call check(iow_read_stream_close(results) == 0, "the end")
  end subroutine

  subroutine read_plain_files
    type(iow_read_lease) :: found
    type(c_ptr) :: files
    character(:), allocatable :: text
    integer(c_int64_t) :: bytes
    integer(c_int) :: error
    call check(iow_read_stream_open_files(service, files, &
      [character(32) :: "fortran_test.stream", "fortran_test.0"], error_text=text) == 0, &
      "two files: "//text)
    bytes = 0
    do while (iow_read_stream_next(files, found, -1_c_int64_t) == 1)
      if (found%item == 0) bytes = bytes + found%bytes
      call iow_read_lease_end(found)
    end do
    call check(bytes == 0, "one of which is empty by now")
    call check(iow_read_stream_close(files) == 0, "the end of them")
    error = iow_read_stream_open_files(service, files, ["fortran_test.none"], error_text=text)
    call check(error == -2 .and. index(text, "fortran_test.none") > 0, "a missing one: "//text)
  end subroutine

  subroutine plans
    use, intrinsic :: iso_c_binding, only: c_funloc
    type(iow_plan_options) :: options
    type(iow_plan_stats) :: stats
    type(iow_plan_lease) :: lease
    type(reads_to_come), target :: reads
    type(c_ptr) :: plan
    character(:), allocatable :: text
    real(8), target :: doubles(100, 8), column(100)
    real(8), pointer, contiguous :: leased(:)
    integer(c_int) :: other
    integer :: i
    call random_number(doubles)
    call check(iow_pwrite(service, fd, doubles, 6400_c_size_t, 0_c_int64_t) == 6400, "a file")
    options%schedule = IOW_PLAN_PP
    options%budget_bytes = 65536
    options%slice_bytes = 8192
    options%depth = 2
    call check(iow_plan_open(service, plan, options, text) == 0, "a plan: "//text)
    other = iow_open_file(path, IOW_READ_ONLY)
    call check(iow_plan_add(plan, other, 800_c_int64_t, 800_c_int64_t) == 0, "a read")
    call check(iow_plan_add_strided(plan, fd, 6400_c_int64_t - 800, 800_c_int64_t, &
      -1600_c_int64_t, 4_c_int64_t) == 0, "and every second one backwards")
    call check(iow_plan_read(plan, fd, column, 800_c_size_t, 800_c_int64_t) == 800, "is made")
    call check(all(same(column, doubles(:, 2))), "and right")
    do i = 8, 2, -2
      column = 0
      call check(iow_plan_read_ptr(plan, fd, c_loc(column), 800_c_size_t, &
        800_c_int64_t * (i - 1)) == 800, "the others")
      call check(all(same(column, doubles(:, i))), "by their address")
    end do

    reads%fd = other
    reads%left = 8
    call check(iow_plan_generate(plan, c_funloc(next_read), c_loc(reads)) == 0, "a generator")
    doubles(:, 3) = 0
    call check(iow_plan_write(plan, fd, doubles(1, 3), 800_c_size_t, 1600_c_int64_t) == 800, "w")
    doubles(:, 4) = 1
    call check(iow_plan_write_ptr(plan, fd, c_loc(doubles(1, 4)), 800_c_size_t, 2400_c_int64_t) &
      == 800, "what is written")
    do i = 8, 1, -1
      call check(iow_plan_read(plan, fd, column, 800_c_size_t, 800_c_int64_t * (i - 1)) == 800, &
        "is read")
      call check(all(same(column, doubles(:, i))), "as it is now")
    end do
    call check(reads%left == 0, "the generator was asked to its end")
    call check(iow_plan_get_stats(plan, stats) == 0, "statistics")
    call check(stats%size == 144 .and. stats%planned_reads == 13, "all of them")
    call check(stats%schedule == IOW_PLAN_PP .and. stats%depth == 2, "with the options")
    call check(stats%reads == 13 .and. stats%unplanned_reads == 0, "and what was read")
    call check(stats%hit_bytes + stats%own_bytes == 10400, "one way or the other")
    call check(stats%failed_slices == 0, "nothing failed")
    call check(stats%cached_bytes >= 0 .and. stats%cached_bytes <= stats%planned_bytes, &
      "the last field is where it is in C")

    call check(iow_plan_add(plan, fd, 800_c_int64_t, 800_c_int64_t) == 0, "a read to lease")
    call check(iow_plan_lease_read(plan, lease, fd, 800_c_size_t, 800_c_int64_t) == 800, "a lease")
    leased => iow_plan_lease_reals(lease)
    call check(size(leased) == 100 .and. lease%bytes == 800, "is as long as the read")
    call check(all(same(leased, doubles(:, 2))), "and has its bytes")
    call iow_plan_lease_end(plan, lease)
    call check(.not. c_associated(lease%data) .and. lease%bytes == 0, "and has ended")
    call iow_plan_lease_end(plan, lease)
    call check(iow_plan_lease_read(plan, lease, fd, 8_c_size_t, 99999999_c_int64_t) == 0, "no bytes")
    call check(.not. c_associated(lease%data), "no lease")

    call check(iow_plan_add(plan, other, 0_c_int64_t, 6400_c_int64_t) == 0, "one more")
    call check(iow_plan_invalidate(plan, fd, 0_c_int64_t, 0_c_int64_t) == 0, "which is dropped")
    call check(iow_plan_forget(plan, other) == 0, "and forgotten")
    call check(iow_close_file(other) == 0, "so that its file can be closed")
    call iow_plan_close(plan)
    call check(.not. c_associated(plan), "the plan is gone")
    call iow_plan_close(plan)
  end subroutine

  ! As the guide to reading ahead has it.
  subroutine loop_ahead
    type(iow_plan_stats) :: stats
    type(c_ptr) :: plan
    real(8) :: rows(512, 64), row(512)
    integer :: i, wrong
    call random_number(rows)
    call check(iow_pwrite(service, fd, rows, 262144_c_size_t, 0_c_int64_t) == 262144, "rows")
    call check(iow_plan_open(service, plan) == 0, "a plan for a loop ahead")
    wrong = 0
    !$omp parallel sections num_threads(2) private(i)
    do i = 0, 63
      if (iow_plan_add(plan, fd, 4096_c_int64_t * modulo(i * 37, 64), 4096_c_int64_t) /= 0) exit
    end do
    !$omp section
    do i = 0, 63
      if (iow_plan_read(plan, fd, row, 4096_c_size_t, 4096_c_int64_t * modulo(i * 37, 64)) &
        /= 4096) wrong = wrong + 1
      if (.not. all(same(row, rows(:, 1 + modulo(i * 37, 64))))) wrong = wrong + 1
    end do
    !$omp end parallel sections
    call check(wrong == 0, "rows of a loop with one ahead of it")
    call check(iow_plan_get_stats(plan, stats) == 0, "its statistics")
    call check(stats%planned_reads == 64 .and. stats%reads == 64, "and all of it was planned")
    call iow_plan_close(plan)
  end subroutine

  subroutine plan_errors
    use, intrinsic :: iso_c_binding, only: c_null_funptr
    type(iow_plan_options) :: options
    type(c_ptr) :: plan
    character(:), allocatable :: text
    integer :: nothing(1)
    options%depth = 300
    call check(iow_plan_open(service, plan, options, text) == -22, "an option out of range")
    call check(index(text, "depth must be 0..256, not 300") > 0, "is named: "//text)
    call check(.not. c_associated(plan), "and gives no plan")
    call check(iow_plan_open(service, plan) == 0, "a plan without options")
    call check(iow_plan_add(plan, -1_c_int, 0_c_int64_t, 1_c_int64_t) == -9, "EBADF")
    call check(iow_plan_add(plan, fd, -1_c_int64_t, 1_c_int64_t) == -22, "EINVAL")
    call check(iow_plan_read(plan, -1_c_int, nothing, 4_c_size_t, 0_c_int64_t) == -9, "a read")
    call check(iow_plan_forget(plan, -1_c_int) == -9, "and what is forgotten")
    call check(iow_plan_generate(plan, c_null_funptr, c_null_ptr) == -22, "no generator")
    call iow_plan_close(plan)
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
    call delete_one(path)
    call delete_one("fortran_test.stream")
    call delete_one("fortran_test.manifest")
    call delete_one("fortran_test.0")
    call delete_one("fortran_test.2")
  end subroutine

  subroutine delete_one(name)
    character(*), intent(in) :: name
    integer :: unit
    open (newunit=unit, file=name, status="old")
    close (unit, status="delete")
  end subroutine

end program

! Ioweave for Fortran: the calls of ioweave.h, tasks.h, streams.h, spread.h, read_streams.h and
! plans.h, which hold the contracts.
! Fortran 2018.
! It is shipped as source, because a module file serves one compiler and version only:
!
!   gfortran ioweave.f90 program.f90 -lioweave
!
! ioweave_openmp.f90 adds what OpenMP tasks need.
!
! Conventions. A service is a type(c_ptr). Functions return 0 or more, or a negated errno, which
! iow_error_text() puts into words. Sizes and offsets are bytes: bytes = storage_size(a) / 8 *
! size(a, kind=c_size_t). A file is a descriptor, from iow_open_file() or from a unit that is open
! for stream access (fnum(unit) in gfortran).
!
! A buffer is a contiguous array of any type and rank, or the element of one at which the bytes
! begin: a(1, 5). Fortran does not allow an element of a pointer or of an assumed-shape array here.
! For these, and wherever an address is at hand, call iow_pread_ptr() and its like with
! c_loc(a(1, 5)). What iow_ta_*() needs after the call has returned (buffer and result) must have
! the attributes TARGET and ASYNCHRONOUS. Without them the compiler may keep it elsewhere or pass a
! copy.
module ioweave
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_f_pointer, c_funptr, c_int, &
    c_int32_t, c_int64_t, c_loc, c_null_char, c_null_funptr, c_null_ptr, c_associated, c_ptr, &
    c_size_t
  implicit none
  private

  public :: c_associated, c_null_ptr, c_ptr, c_int, c_int64_t, c_size_t, c_loc, c_f_pointer
  public :: iow_options, iow_device_options, iow_flow_options, iow_iovec, iow_task_stats
  public :: iow_device_create, iow_flow_create, iow_flow_learned, iow_admit, iow_finish
  public :: iow_service_open, iow_service_close, iow_service_engine, iow_service_tasks
  public :: iow_version, iow_error_text
  public :: iow_open_file, iow_close_file
  public :: iow_pread, iow_pwrite, iow_pread_ptr, iow_pwrite_ptr, iow_fsync, iow_fdatasync
  public :: iow_preadv, iow_pwritev
  public :: iow_ta_pread, iow_ta_pwrite, iow_ta_pread_ptr, iow_ta_pwrite_ptr
  public :: iow_ta_preadv, iow_ta_pwritev
  public :: iow_ta_fsync, iow_ta_fdatasync
  public :: iow_task_begin, iow_task_end, iow_service_task_stats
  public :: iow_write_stream_options, iow_write_file_options, iow_write_stream_stats, iow_lease
  public :: iow_write_stream_open, iow_write_stream_create, iow_write_stream_close
  public :: iow_lease_begin, iow_lease_begin_async, iow_lease_write, iow_lease_append
  public :: iow_lease_end, iow_lease_reals
  public :: iow_write_stream_copy, iow_write_stream_copy_ptr
  public :: iow_write_stream_flush, iow_write_stream_sync, iow_write_stream_end
  public :: iow_write_stream_error, iow_write_stream_get_stats
  public :: iow_spread_options, iow_spread_stats
  public :: iow_spread_create, iow_spread_append, iow_spread_copy, iow_spread_end
  public :: iow_spread_abandon, iow_spread_get_stats
  public :: iow_read_stream_options, iow_read_stream_stats, iow_read_lease
  public :: iow_read_stream_open, iow_read_stream_open_files, iow_read_stream_close
  public :: iow_read_stream_next, iow_read_stream_next_async, iow_read_lease_end
  public :: iow_read_lease_reals, iow_read_stream_explain, iow_read_stream_get_stats
  public :: iow_plan_options, iow_plan_stats, iow_planned_read
  public :: iow_plan_open, iow_plan_close, iow_plan_add, iow_plan_add_strided, iow_plan_generate
  public :: iow_plan_read, iow_plan_read_ptr, iow_plan_write, iow_plan_write_ptr
  public :: iow_plan_lease, iow_plan_lease_read, iow_plan_lease_end, iow_plan_lease_reals
  public :: iow_plan_invalidate, iow_plan_forget, iow_plan_get_stats

  interface iow_error_text
    procedure error_text_of_int, error_text_of_size
  end interface

  ! iow_engine, iow_engine_mode, iow_tasks and iow_task_reaper
  enum, bind(C)
    enumerator :: IOW_ENGINE_AUTO = 0, IOW_ENGINE_URING, IOW_ENGINE_AIO, IOW_ENGINE_THREADS
  end enum
  enum, bind(C)
    enumerator :: IOW_MODE_PLAIN = 0, IOW_MODE_SQPOLL, IOW_MODE_IOPOLL
  end enum
  enum, bind(C)
    enumerator :: IOW_TASKS_AUTO = 0, IOW_TASKS_NONE, IOW_TASKS_ALPI, IOW_TASKS_TBB
  end enum
  enum, bind(C)
    enumerator :: IOW_REAPER_AUTO = 0, IOW_REAPER_THREAD, IOW_REAPER_TASK
  end enum
  ! iow_class and iow_scheduling
  enum, bind(C)
    enumerator :: IOW_FOREGROUND = 0, IOW_WRITE_BEHIND, IOW_PREFETCH
  end enum
  enum, bind(C)
    enumerator :: IOW_SCHEDULE_NONE = 0, IOW_SCHEDULE_STRICT, IOW_SCHEDULE_WEIGHTED
  end enum
  ! iow_overflow and iow_write_path
  enum, bind(C)
    enumerator :: IOW_OVERFLOW_BLOCK = 0, IOW_OVERFLOW_FAIL, IOW_OVERFLOW_SYNCHRONOUS
  end enum
  enum, bind(C)
    enumerator :: IOW_PATH_AUTO = 0, IOW_PATH_DIRECT, IOW_PATH_BUFFERED
  end enum
  ! iow_placement and iow_target_failure
  enum, bind(C)
    enumerator :: IOW_PLACE_ROUND_ROBIN = 0, IOW_PLACE_BY_LOAD
  end enum
  enum, bind(C)
    enumerator :: IOW_FAILURE_STOP = 0, IOW_FAILURE_MOVE
  end enum
  ! iow_plan_schedule
  enum, bind(C)
    enumerator :: IOW_PLAN_AUTO = 0, IOW_PLAN_NORMAL, IOW_PLAN_PP, IOW_PLAN_PPIS, IOW_PLAN_WEIGHTED
  end enum
  public :: IOW_PLAN_AUTO, IOW_PLAN_NORMAL, IOW_PLAN_PP, IOW_PLAN_PPIS, IOW_PLAN_WEIGHTED
  public :: IOW_OVERFLOW_BLOCK, IOW_OVERFLOW_FAIL, IOW_OVERFLOW_SYNCHRONOUS
  public :: IOW_PATH_AUTO, IOW_PATH_DIRECT, IOW_PATH_BUFFERED
  public :: IOW_PLACE_ROUND_ROBIN, IOW_PLACE_BY_LOAD, IOW_FAILURE_STOP, IOW_FAILURE_MOVE
  integer(c_int), parameter, public :: IOW_ALL_FILES = -1
  public :: IOW_FOREGROUND, IOW_WRITE_BEHIND, IOW_PREFETCH
  public :: IOW_SCHEDULE_NONE, IOW_SCHEDULE_STRICT, IOW_SCHEDULE_WEIGHTED
  public :: IOW_ENGINE_AUTO, IOW_ENGINE_URING, IOW_ENGINE_AIO, IOW_ENGINE_THREADS
  public :: IOW_MODE_PLAIN, IOW_MODE_SQPOLL, IOW_MODE_IOPOLL
  public :: IOW_TASKS_AUTO, IOW_TASKS_NONE, IOW_TASKS_ALPI, IOW_TASKS_TBB
  public :: IOW_REAPER_AUTO, IOW_REAPER_THREAD, IOW_REAPER_TASK

  ! Flags of iow_open_file(), to be added up. They are the same on every architecture of Linux that
  ! Ioweave runs on. O_DIRECT differs: iow_direct_flag() of ioweave_openmp.f90 returns its value.
  integer(c_int), parameter, public :: IOW_READ_ONLY = 0, IOW_WRITE_ONLY = 1, IOW_READ_WRITE = 2
  integer(c_int), parameter, public :: IOW_CREATE = 64, IOW_TRUNCATE = 512

  ! iow_options; a field left at zero has the default.
  type, bind(C) :: iow_options
    integer(c_int32_t) :: size = 0
    integer(c_int) :: engine = IOW_ENGINE_AUTO
    integer(c_int) :: mode = IOW_MODE_PLAIN
    integer(c_int) :: required = 0
    integer(c_int32_t) :: queue_depth = 0
    integer(c_int32_t) :: threads = 0
    integer(c_int) :: tasks = IOW_TASKS_AUTO
    integer(c_int) :: task_reaper = IOW_REAPER_AUTO
    integer(c_int32_t) :: max_paused = 0
    integer(c_int32_t) :: poll_min_us = 0
    integer(c_int32_t) :: poll_max_us = 0
    integer(c_int32_t) :: reserved(3) = 0
    type(c_funptr) :: log = c_null_funptr
    type(c_ptr) :: log_user = c_null_ptr
    type(c_ptr) :: io_processors = c_null_ptr
  end type

  type, bind(C) :: iow_device_options
    integer(c_int32_t) :: size = 0
    integer(c_int) :: scheduling = IOW_SCHEDULE_NONE
    real(c_double) :: budget_mb_per_s = 0
    integer(c_int32_t) :: max_in_flight = 0
    integer(c_int32_t) :: weights(3) = 0
    integer(c_int32_t) :: begins_at = 0
    integer(c_int32_t) :: is_measured = 0
    integer(c_int32_t) :: reserved(6) = 0
  end type

  ! A constraint in words ("climb", "20"), and what an earlier run learned, are arguments of
  ! iow_flow_create().
  type, bind(C) :: iow_flow_options
    integer(c_int32_t) :: size = 0
    integer(c_int32_t) :: device = 0
    integer(c_int) :: priority = IOW_FOREGROUND
    real(c_double) :: constraint_mb_per_s = 0
    integer(c_int32_t) :: max_in_flight = 0
    integer(c_int32_t) :: reserved_word = 0
    type(c_ptr) :: constraint = c_null_ptr
    type(c_ptr) :: learned = c_null_ptr
    integer(c_int32_t) :: reserved(4) = 0
  end type

  ! struct iovec: c_loc() of a part of the data, and the bytes of that part.
  type, bind(C) :: iow_iovec
    type(c_ptr) :: base = c_null_ptr
    integer(c_size_t) :: bytes = 0
  end type

  type, bind(C) :: iow_task_stats
    integer(c_int32_t) :: size = 72 ! the bytes that iow_service_task_stats() fills
    integer(c_int32_t) :: paused = 0, most_paused = 0, reserved = 0
    integer(c_int64_t) :: pauses = 0, at_once = 0, made_plain = 0, bound = 0, bound_pending = 0
    integer(c_int64_t) :: alone = 0, no_room = 0
  end type

  ! iow_write_stream_options and iow_write_file_options; a field left at zero has the default.
  type, bind(C) :: iow_write_stream_options
    integer(c_int32_t) :: size = 0
    integer(c_int) :: overflow = IOW_OVERFLOW_BLOCK
    integer(c_int64_t) :: buffer_bytes = 0
    integer(c_int64_t) :: budget_bytes = 0
    integer(c_int32_t) :: depth = 0
    integer(c_int32_t) :: flow = 0
    integer(c_int) :: path = IOW_PATH_AUTO
    integer(c_int32_t) :: small_pages = 0
    integer(c_int32_t) :: reserved(8) = 0
  end type

  type, bind(C) :: iow_write_file_options
    integer(c_int32_t) :: size = 0
    integer(c_int32_t) :: keep = 0
    integer(c_int32_t) :: exclusive = 0
    integer(c_int32_t) :: mode = 0
    integer(c_int64_t) :: expected_bytes = 0
    integer(c_int32_t) :: reserved(8) = 0
  end type

  ! The right to fill `bytes` bytes at `data`. c_f_pointer(lease%data, a, [n]) makes an array of
  ! them, and iow_lease_reals() one of real(c_double). Do not use that array once the lease was
  ! handed over.
  type, bind(C) :: iow_lease
    type(c_ptr) :: data = c_null_ptr
    integer(c_int64_t) :: bytes = 0
    type(c_ptr) :: internal(2) = c_null_ptr
  end type

  type, bind(C) :: iow_write_stream_stats
    integer(c_int32_t) :: size = 96 ! the bytes that iow_write_stream_get_stats() fills
    integer(c_int32_t) :: buffers = 0
    integer(c_int64_t) :: writes = 0, written_bytes = 0, direct_bytes = 0, dropped_bytes = 0
    integer(c_int64_t) :: lease_waits = 0, lease_wait_ns = 0
    integer(c_int64_t) :: return_ns = 0, durable_ns = 0, write_ns = 0, syncs = 0
    integer(c_int32_t) :: most_in_use = 0, huge_pages = 0
  end type

  type, bind(C) :: iow_spread_options
    integer(c_int32_t) :: size = 0
    integer(c_int) :: placement = IOW_PLACE_ROUND_ROBIN
    integer(c_int) :: on_failure = IOW_FAILURE_STOP
    integer(c_int32_t) :: exclusive = 0
    integer(c_int32_t) :: mode = 0
    integer(c_int32_t) :: reserved_word = 0
    integer(c_int64_t) :: expected_bytes = 0
    integer(c_int32_t) :: reserved(8) = 0
  end type

  type, bind(C) :: iow_spread_stats
    integer(c_int32_t) :: size = 48 ! the bytes that iow_spread_get_stats() fills
    integer(c_int32_t) :: targets = 0, failed_targets = 0, reserved = 0
    integer(c_int64_t) :: items = 0, bytes = 0, moved_items = 0, lost_items = 0
  end type

  type, bind(C) :: iow_read_stream_options
    integer(c_int32_t) :: size = 0
    integer(c_int) :: path = IOW_PATH_AUTO
    integer(c_int64_t) :: buffer_bytes = 0
    integer(c_int64_t) :: budget_bytes = 0
    integer(c_int32_t) :: flow = 0
    integer(c_int32_t) :: small_pages = 0
    integer(c_int32_t) :: relative_only = 0
    integer(c_int32_t) :: reserved(9) = 0
  end type

  ! What was read: `bytes` bytes at `data`, which are those of the item from `offset` on.
  ! iow_read_lease_reals() makes an array of them. Do not use that array once the lease has ended.
  type, bind(C) :: iow_read_lease
    type(c_ptr) :: data = c_null_ptr
    integer(c_int64_t) :: bytes = 0
    integer(c_int64_t) :: item = 0 ! its number, from 0
    integer(c_int64_t) :: offset = 0
    integer(c_int64_t) :: item_bytes = 0
    type(c_ptr) :: internal(3) = c_null_ptr
  end type

  type, bind(C) :: iow_read_stream_stats
    integer(c_int32_t) :: size = 104 ! the bytes that iow_read_stream_get_stats() fills
    integer(c_int32_t) :: buffers = 0
    integer(c_int64_t) :: buffer_bytes = 0, items = 0, lost_items = 0, bytes = 0
    integer(c_int64_t) :: largest_item = 0, reads = 0, read_bytes = 0, direct_bytes = 0
    integer(c_int64_t) :: waits = 0, wait_ns = 0, read_ns = 0
    integer(c_int32_t) :: most_reading = 0, huge_pages = 0
  end type

  type, bind(C) :: iow_plan_options
    integer(c_int32_t) :: size = 0
    integer(c_int) :: schedule = IOW_PLAN_AUTO
    integer(c_int64_t) :: budget_bytes = 0
    integer(c_int64_t) :: slice_bytes = 0
    integer(c_int32_t) :: depth = 0
    integer(c_int32_t) :: flow = 0
    integer(c_int32_t) :: own_flow = 0
    integer(c_int32_t) :: small_pages = 0
    integer(c_int32_t) :: sole_writer = 0
    integer(c_int32_t) :: reserved(7) = 0
  end type

  ! A read to come, of `bytes` bytes from `offset` on.
  type, bind(C) :: iow_planned_read
    integer(c_int) :: fd = -1
    integer(c_int32_t) :: reserved = 0
    integer(c_int64_t) :: offset = 0
    integer(c_int64_t) :: bytes = 0
  end type

  ! What was read: `bytes` bytes at `data`, which begin a page. iow_plan_lease_reals() makes an array
  ! of them. Do not use that array once the lease has ended.
  type, bind(C) :: iow_plan_lease
    type(c_ptr) :: data = c_null_ptr
    integer(c_size_t) :: bytes = 0
    type(c_ptr) :: owner = c_null_ptr
  end type

  type, bind(C) :: iow_plan_stats
    integer(c_int32_t) :: size = 144 ! the bytes that iow_plan_get_stats() fills
    integer(c_int32_t) :: depth = 0
    integer(c_int) :: schedule = IOW_PLAN_AUTO
    integer(c_int32_t) :: is_settled = 0
    real(c_double) :: gain_of_two = 0
    integer(c_int64_t) :: planned_reads = 0, planned_bytes = 0, ahead_bytes = 0
    integer(c_int64_t) :: reads = 0, hit_reads = 0, late_reads = 0, unplanned_reads = 0
    integer(c_int64_t) :: hit_bytes = 0, own_bytes = 0, wait_ns = 0, read_ns = 0
    integer(c_int64_t) :: unread_bytes = 0, stale_bytes = 0, failed_slices = 0
    integer(c_int64_t) :: cached_bytes = 0
  end type

  interface
    subroutine iow_service_close(service) bind(C, name="iow_service_close")
      import :: c_ptr
      type(c_ptr), value :: service
    end subroutine

    ! Blocking calls: they return the bytes transferred, or a negated errno.
    integer(c_size_t) function iow_pread(service, fd, buffer, bytes, offset) &
        bind(C, name="iow_pread") result(done)
      import :: c_ptr, c_int, c_size_t, c_int64_t
      type(c_ptr), value :: service
      integer(c_int), value :: fd
      type(*), dimension(*), intent(inout) :: buffer
      integer(c_size_t), value :: bytes
      integer(c_int64_t), value :: offset
    end function

    integer(c_size_t) function iow_pwrite(service, fd, buffer, bytes, offset) &
        bind(C, name="iow_pwrite") result(done)
      import :: c_ptr, c_int, c_size_t, c_int64_t
      type(c_ptr), value :: service
      integer(c_int), value :: fd
      type(*), dimension(*), intent(in) :: buffer
      integer(c_size_t), value :: bytes
      integer(c_int64_t), value :: offset
    end function

    integer(c_int) function iow_fsync(service, fd) bind(C, name="iow_fsync") result(error)
      import :: c_ptr, c_int
      type(c_ptr), value :: service
      integer(c_int), value :: fd
    end function

    integer(c_int) function iow_fdatasync(service, fd) bind(C, name="iow_fdatasync") result(error)
      import :: c_ptr, c_int
      type(c_ptr), value :: service
      integer(c_int), value :: fd
    end function

    integer(c_size_t) function iow_preadv(service, fd, vectors, count, offset) &
        bind(C, name="iow_preadv") result(done)
      import :: c_ptr, c_int, c_size_t, c_int64_t, iow_iovec
      type(c_ptr), value :: service
      integer(c_int), value :: fd
      type(iow_iovec), intent(in) :: vectors(*)
      integer(c_int), value :: count
      integer(c_int64_t), value :: offset
    end function

    integer(c_size_t) function iow_pwritev(service, fd, vectors, count, offset) &
        bind(C, name="iow_pwritev") result(done)
      import :: c_ptr, c_int, c_size_t, c_int64_t, iow_iovec
      type(c_ptr), value :: service
      integer(c_int), value :: fd
      type(iow_iovec), intent(in) :: vectors(*)
      integer(c_int), value :: count
      integer(c_int64_t), value :: offset
    end function

    ! Calls bound to the calling task. They return 0, and write `result` when the transfer has
    ! ended; or they return a negated errno, which they also write to `result` at once.
    integer(c_int) function iow_ta_pread(service, fd, buffer, bytes, offset, result) &
        bind(C, name="iow_ta_pread") result(error)
      import :: c_ptr, c_int, c_size_t, c_int64_t
      type(c_ptr), value :: service
      integer(c_int), value :: fd
      type(*), dimension(*), intent(inout), asynchronous, target :: buffer
      integer(c_size_t), value :: bytes
      integer(c_int64_t), value :: offset
      integer(c_size_t), intent(inout), asynchronous, target :: result
    end function

    integer(c_int) function iow_ta_pwrite(service, fd, buffer, bytes, offset, result) &
        bind(C, name="iow_ta_pwrite") result(error)
      import :: c_ptr, c_int, c_size_t, c_int64_t
      type(c_ptr), value :: service
      integer(c_int), value :: fd
      type(*), dimension(*), intent(in), asynchronous, target :: buffer
      integer(c_size_t), value :: bytes
      integer(c_int64_t), value :: offset
      integer(c_size_t), intent(inout), asynchronous, target :: result
    end function

    ! `vectors` is copied; the buffers that it points to are not.
    integer(c_int) function iow_ta_preadv(service, fd, vectors, count, offset, result) &
        bind(C, name="iow_ta_preadv") result(error)
      import :: c_ptr, c_int, c_size_t, c_int64_t, iow_iovec
      type(c_ptr), value :: service
      integer(c_int), value :: fd
      type(iow_iovec), intent(in) :: vectors(*)
      integer(c_int), value :: count
      integer(c_int64_t), value :: offset
      integer(c_size_t), intent(inout), asynchronous, target :: result
    end function

    integer(c_int) function iow_ta_pwritev(service, fd, vectors, count, offset, result) &
        bind(C, name="iow_ta_pwritev") result(error)
      import :: c_ptr, c_int, c_size_t, c_int64_t, iow_iovec
      type(c_ptr), value :: service
      integer(c_int), value :: fd
      type(iow_iovec), intent(in) :: vectors(*)
      integer(c_int), value :: count
      integer(c_int64_t), value :: offset
      integer(c_size_t), intent(inout), asynchronous, target :: result
    end function

    integer(c_int) function iow_ta_fsync(service, fd, result) &
        bind(C, name="iow_ta_fsync") result(error)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: service
      integer(c_int), value :: fd
      integer(c_size_t), intent(inout), asynchronous, target :: result
    end function

    integer(c_int) function iow_ta_fdatasync(service, fd, result) &
        bind(C, name="iow_ta_fdatasync") result(error)
      import :: c_ptr, c_int, c_size_t
      type(c_ptr), value :: service
      integer(c_int), value :: fd
      integer(c_size_t), intent(inout), asynchronous, target :: result
    end function

    ! The same calls with an address instead of an array.
    integer(c_size_t) function iow_pread_ptr(service, fd, buffer, bytes, offset) &
        bind(C, name="iow_pread") result(done)
      import :: c_ptr, c_int, c_size_t, c_int64_t
      type(c_ptr), value :: service
      integer(c_int), value :: fd
      type(c_ptr), value :: buffer
      integer(c_size_t), value :: bytes
      integer(c_int64_t), value :: offset
    end function

    integer(c_size_t) function iow_pwrite_ptr(service, fd, buffer, bytes, offset) &
        bind(C, name="iow_pwrite") result(done)
      import :: c_ptr, c_int, c_size_t, c_int64_t
      type(c_ptr), value :: service
      integer(c_int), value :: fd
      type(c_ptr), value :: buffer
      integer(c_size_t), value :: bytes
      integer(c_int64_t), value :: offset
    end function

    integer(c_int) function iow_ta_pread_ptr(service, fd, buffer, bytes, offset, result) &
        bind(C, name="iow_ta_pread") result(error)
      import :: c_ptr, c_int, c_size_t, c_int64_t
      type(c_ptr), value :: service
      integer(c_int), value :: fd
      type(c_ptr), value :: buffer
      integer(c_size_t), value :: bytes
      integer(c_int64_t), value :: offset
      integer(c_size_t), intent(inout), asynchronous, target :: result
    end function

    integer(c_int) function iow_ta_pwrite_ptr(service, fd, buffer, bytes, offset, result) &
        bind(C, name="iow_ta_pwrite") result(error)
      import :: c_ptr, c_int, c_size_t, c_int64_t
      type(c_ptr), value :: service
      integer(c_int), value :: fd
      type(c_ptr), value :: buffer
      integer(c_size_t), value :: bytes
      integer(c_int64_t), value :: offset
      integer(c_size_t), intent(inout), asynchronous, target :: result
    end function

    ! For I/O that another library does, such as HDF5: ask for admission, do the I/O, report its
    ! end. Returns the number of the operation, above 0, or a negated errno.
    integer(c_int64_t) function iow_admit(service, flow, bytes) &
        bind(C, name="iow_admit") result(operation)
      import :: c_ptr, c_int32_t, c_int64_t
      type(c_ptr), value :: service
      integer(c_int32_t), value :: flow
      integer(c_int64_t), value :: bytes
    end function

    ! `moved` is the bytes moved, or a negated errno.
    integer(c_int) function iow_finish(service, operation, moved) &
        bind(C, name="iow_finish") result(error)
      import :: c_ptr, c_int, c_int64_t
      type(c_ptr), value :: service
      integer(c_int64_t), value :: operation, moved
    end function

    ! `done` is c_funloc() of a bind(C) subroutine with one type(c_ptr), value argument.
    integer(c_int) function iow_task_begin(service, done, user) &
        bind(C, name="iow_task_begin") result(error)
      import :: c_funptr, c_ptr, c_int
      type(c_ptr), value :: service
      type(c_funptr), value :: done
      type(c_ptr), value :: user
    end function

    integer(c_int) function iow_task_end(service) bind(C, name="iow_task_end") result(error)
      import :: c_ptr, c_int
      type(c_ptr), value :: service
    end function

    integer(c_int) function iow_service_task_stats(service, stats) &
        bind(C, name="iow_service_task_stats") result(error)
      import :: c_ptr, c_int, iow_task_stats
      type(c_ptr), value :: service
      type(iow_task_stats), intent(inout) :: stats
    end function

    ! Write streams. A stream is a type(c_ptr), from iow_write_stream_open(); a file is its number,
    ! from iow_write_stream_create(). Returns 0, or a negated errno, as all that follow.
    integer(c_int) function iow_lease_begin(stream, lease, timeout_ns) &
        bind(C, name="iow_lease_begin") result(error)
      import :: c_ptr, c_int, c_int64_t, iow_lease
      type(c_ptr), value :: stream
      type(iow_lease), intent(out) :: lease
      integer(c_int64_t), value :: timeout_ns
    end function

    ! `leased` is c_funloc() of a bind(C) subroutine with the arguments type(iow_lease), value and
    ! type(c_ptr), value.
    integer(c_int) function iow_lease_begin_async(stream, leased, user) &
        bind(C, name="iow_lease_begin_async") result(error)
      import :: c_funptr, c_ptr, c_int
      type(c_ptr), value :: stream
      type(c_funptr), value :: leased
      type(c_ptr), value :: user
    end function

    integer(c_int) function iow_lease_write(lease, file, bytes, offset) &
        bind(C, name="iow_lease_write") result(error)
      import :: c_int, c_int64_t, iow_lease
      type(iow_lease), intent(inout) :: lease
      integer(c_int), value :: file
      integer(c_int64_t), value :: bytes, offset
    end function

    integer(c_int) function iow_lease_append(lease, file, bytes) &
        bind(C, name="iow_lease_append") result(error)
      import :: c_int, c_int64_t, iow_lease
      type(iow_lease), intent(inout) :: lease
      integer(c_int), value :: file
      integer(c_int64_t), value :: bytes
    end function

    subroutine iow_lease_end(lease) bind(C, name="iow_lease_end")
      import :: iow_lease
      type(iow_lease), intent(inout) :: lease
    end subroutine

    ! Copies the bytes, so `buffer` may change afterwards. An offset of -1 appends.
    integer(c_int) function iow_write_stream_copy(stream, file, buffer, bytes, offset) &
        bind(C, name="iow_write_stream_copy") result(error)
      import :: c_ptr, c_int, c_int64_t
      type(c_ptr), value :: stream
      integer(c_int), value :: file
      type(*), dimension(*), intent(in) :: buffer
      integer(c_int64_t), value :: bytes, offset
    end function

    integer(c_int) function iow_write_stream_copy_ptr(stream, file, buffer, bytes, offset) &
        bind(C, name="iow_write_stream_copy") result(error)
      import :: c_ptr, c_int, c_int64_t
      type(c_ptr), value :: stream
      integer(c_int), value :: file
      type(c_ptr), value :: buffer
      integer(c_int64_t), value :: bytes, offset
    end function

    ! `file` is IOW_ALL_FILES, or a file.
    integer(c_int) function iow_write_stream_flush(stream, file) &
        bind(C, name="iow_write_stream_flush") result(error)
      import :: c_ptr, c_int
      type(c_ptr), value :: stream
      integer(c_int), value :: file
    end function

    integer(c_int) function iow_write_stream_sync(stream, file) &
        bind(C, name="iow_write_stream_sync") result(error)
      import :: c_ptr, c_int
      type(c_ptr), value :: stream
      integer(c_int), value :: file
    end function

    integer(c_int) function iow_write_stream_get_stats(stream, stats) &
        bind(C, name="iow_write_stream_get_stats") result(error)
      import :: c_ptr, c_int, iow_write_stream_stats
      type(c_ptr), value :: stream
      type(iow_write_stream_stats), intent(inout) :: stats
    end function

    ! Spreads: items of a write stream on several devices. A spread is a type(c_ptr), from
    ! iow_spread_create(). `item`, which may be left out, gets the number of the item, from 0.
    integer(c_int) function iow_spread_append(lease, spread, bytes, item) &
        bind(C, name="iow_spread_append") result(error)
      import :: c_int, c_int64_t, c_ptr, iow_lease
      type(iow_lease), intent(inout) :: lease
      type(c_ptr), value :: spread
      integer(c_int64_t), value :: bytes
      integer(c_int64_t), intent(out), optional :: item
    end function

    ! Copies the bytes, so `buffer` may change afterwards.
    integer(c_int) function iow_spread_copy(spread, buffer, bytes, item) &
        bind(C, name="iow_spread_copy") result(error)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: spread
      type(*), dimension(*), intent(in) :: buffer
      integer(c_int64_t), value :: bytes
      integer(c_int64_t), intent(out), optional :: item
    end function

    integer(c_int) function iow_spread_get_stats(spread, stats) &
        bind(C, name="iow_spread_get_stats") result(error)
      import :: c_ptr, c_int, iow_spread_stats
      type(c_ptr), value :: spread
      type(iow_spread_stats), intent(inout) :: stats
    end function

    ! Returns 1 and a lease, 0 behind the last item, or a negated errno, which
    ! iow_read_stream_explain() explains.
    integer(c_int) function iow_read_stream_next(stream, lease, timeout_ns) &
        bind(C, name="iow_read_stream_next") result(found)
      import :: c_int, c_int64_t, c_ptr, iow_read_lease
      type(c_ptr), value :: stream
      type(iow_read_lease), intent(out) :: lease
      integer(c_int64_t), value :: timeout_ns
    end function

    ! `done` is c_funloc() of a bind(C) subroutine with the arguments type(iow_read_lease), value;
    ! integer(c_int), value; and type(c_ptr), value.
    integer(c_int) function iow_read_stream_next_async(stream, done, user) &
        bind(C, name="iow_read_stream_next_async") result(error)
      import :: c_funptr, c_int, c_ptr
      type(c_ptr), value :: stream
      type(c_funptr), value :: done
      type(c_ptr), value :: user
    end function

    subroutine iow_read_lease_end(lease) bind(C, name="iow_read_lease_end")
      import :: iow_read_lease
      type(iow_read_lease), intent(inout) :: lease
    end subroutine

    integer(c_int) function iow_read_stream_get_stats(stream, stats) &
        bind(C, name="iow_read_stream_get_stats") result(error)
      import :: c_int, c_ptr, iow_read_stream_stats
      type(c_ptr), value :: stream
      type(iow_read_stream_stats), intent(inout) :: stats
    end function

    ! Plans of reads to come. A plan is a type(c_ptr), from iow_plan_open(). Descriptors stay the
    ! caller's: call iow_plan_forget() before iow_close_file(), unless the plan was closed before.
    integer(c_int) function iow_plan_add(plan, fd, offset, bytes) &
        bind(C, name="iow_plan_add") result(error)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: plan
      integer(c_int), value :: fd
      integer(c_int64_t), value :: offset, bytes
    end function

    ! `count` reads that begin `stride` bytes apart.
    integer(c_int) function iow_plan_add_strided(plan, fd, offset, bytes, stride, count) &
        bind(C, name="iow_plan_add_strided") result(error)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: plan
      integer(c_int), value :: fd
      integer(c_int64_t), value :: offset, bytes, stride, count
    end function

    ! `next` is c_funloc() of a bind(C) function that returns integer(c_int): 1 after it has filled
    ! its first argument, type(iow_planned_read), intent(inout); 0 behind the last read. Its second
    ! argument is `user`: type(c_ptr), value. It is called inside later calls on the plan, which it
    ! may not call itself.
    integer(c_int) function iow_plan_generate(plan, next, user) &
        bind(C, name="iow_plan_generate") result(error)
      import :: c_funptr, c_int, c_ptr
      type(c_ptr), value :: plan
      type(c_funptr), value :: next
      type(c_ptr), value :: user
    end function

    ! As iow_pread() and iow_pwrite().
    integer(c_size_t) function iow_plan_read(plan, fd, buffer, bytes, offset) &
        bind(C, name="iow_plan_read") result(done)
      import :: c_ptr, c_int, c_size_t, c_int64_t
      type(c_ptr), value :: plan
      integer(c_int), value :: fd
      type(*), dimension(*), intent(inout) :: buffer
      integer(c_size_t), value :: bytes
      integer(c_int64_t), value :: offset
    end function

    integer(c_size_t) function iow_plan_write(plan, fd, buffer, bytes, offset) &
        bind(C, name="iow_plan_write") result(done)
      import :: c_ptr, c_int, c_size_t, c_int64_t
      type(c_ptr), value :: plan
      integer(c_int), value :: fd
      type(*), dimension(*), intent(in) :: buffer
      integer(c_size_t), value :: bytes
      integer(c_int64_t), value :: offset
    end function

    integer(c_size_t) function iow_plan_read_ptr(plan, fd, buffer, bytes, offset) &
        bind(C, name="iow_plan_read") result(done)
      import :: c_ptr, c_int, c_size_t, c_int64_t
      type(c_ptr), value :: plan
      integer(c_int), value :: fd
      type(c_ptr), value :: buffer
      integer(c_size_t), value :: bytes
      integer(c_int64_t), value :: offset
    end function

    integer(c_size_t) function iow_plan_write_ptr(plan, fd, buffer, bytes, offset) &
        bind(C, name="iow_plan_write") result(done)
      import :: c_ptr, c_int, c_size_t, c_int64_t
      type(c_ptr), value :: plan
      integer(c_int), value :: fd
      type(c_ptr), value :: buffer
      integer(c_size_t), value :: bytes
      integer(c_int64_t), value :: offset
    end function

    ! As iow_plan_read(), without a copy where these very bytes were planned as one read. Where it
    ! returns 0 or an error there is no lease to end.
    integer(c_size_t) function iow_plan_lease_read(plan, lease, fd, bytes, offset) &
        bind(C, name="iow_plan_lease_read") result(done)
      import :: c_ptr, c_int, c_size_t, c_int64_t, iow_plan_lease
      type(c_ptr), value :: plan
      type(iow_plan_lease), intent(out) :: lease
      integer(c_int), value :: fd
      integer(c_size_t), value :: bytes
      integer(c_int64_t), value :: offset
    end function

    subroutine iow_plan_lease_end(plan, lease) bind(C, name="iow_plan_lease_end")
      import :: c_ptr, iow_plan_lease
      type(c_ptr), value :: plan
      type(iow_plan_lease), intent(inout) :: lease
    end subroutine

    ! 0 bytes: up to the end of the file.
    integer(c_int) function iow_plan_invalidate(plan, fd, offset, bytes) &
        bind(C, name="iow_plan_invalidate") result(error)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: plan
      integer(c_int), value :: fd
      integer(c_int64_t), value :: offset, bytes
    end function

    integer(c_int) function iow_plan_forget(plan, fd) bind(C, name="iow_plan_forget") result(error)
      import :: c_int, c_ptr
      type(c_ptr), value :: plan
      integer(c_int), value :: fd
    end function

    integer(c_int) function iow_plan_get_stats(plan, stats) &
        bind(C, name="iow_plan_get_stats") result(error)
      import :: c_int, c_ptr, iow_plan_stats
      type(c_ptr), value :: plan
      type(iow_plan_stats), intent(inout) :: stats
    end function

    integer(c_int) function iow_close_file(fd) bind(C, name="close") result(error)
      import :: c_int
      integer(c_int), value :: fd
    end function
  end interface

  interface
    integer(c_int) function c_service_open(service, options, error_text) &
        bind(C, name="iow_service_open") result(error)
      import :: c_ptr, c_int
      type(c_ptr), intent(out) :: service
      type(c_ptr), value :: options
      type(c_ptr), intent(out) :: error_text
    end function

    integer(c_int) function c_write_stream_open(service, stream, options, error_text) &
        bind(C, name="iow_write_stream_open") result(error)
      import :: c_int, c_ptr
      type(c_ptr), value :: service
      type(c_ptr), intent(out) :: stream
      type(c_ptr), value :: options
      type(c_ptr), intent(out) :: error_text
    end function

    integer(c_int) function c_write_stream_create(stream, path, options, error_text) &
        bind(C, name="iow_write_stream_create") result(file)
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: stream
      character(kind=c_char), intent(in) :: path(*)
      type(c_ptr), value :: options
      type(c_ptr), intent(out) :: error_text
    end function

    integer(c_int) function c_write_stream_close(stream, durable, error_text) &
        bind(C, name="iow_write_stream_close") result(error)
      import :: c_int, c_ptr
      type(c_ptr), value :: stream
      integer(c_int), value :: durable
      type(c_ptr), intent(out) :: error_text
    end function

    integer(c_int) function c_write_stream_end(stream, file, durable, error_text) &
        bind(C, name="iow_write_stream_end") result(error)
      import :: c_int, c_ptr
      type(c_ptr), value :: stream
      integer(c_int), value :: file, durable
      type(c_ptr), intent(out) :: error_text
    end function

    integer(c_int) function c_write_stream_error(stream, file, text) &
        bind(C, name="iow_write_stream_error") result(error)
      import :: c_int, c_ptr
      type(c_ptr), value :: stream
      integer(c_int), value :: file
      type(c_ptr), intent(out) :: text
    end function

    integer(c_int) function c_spread_create(stream, spread, manifest, targets, count, options, &
        error_text) bind(C, name="iow_spread_create") result(error)
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: stream
      type(c_ptr), intent(out) :: spread
      character(kind=c_char), intent(in) :: manifest(*)
      type(c_ptr), intent(in) :: targets(*)
      integer(c_int), value :: count
      type(c_ptr), value :: options
      type(c_ptr), intent(out) :: error_text
    end function

    integer(c_int) function c_spread_end(spread, durable, error_text) &
        bind(C, name="iow_spread_end") result(error)
      import :: c_int, c_ptr
      type(c_ptr), value :: spread
      integer(c_int), value :: durable
      type(c_ptr), intent(out) :: error_text
    end function

    subroutine c_spread_abandon(spread) bind(C, name="iow_spread_abandon")
      import :: c_ptr
      type(c_ptr), value :: spread
    end subroutine

    integer(c_int) function c_read_stream_open(service, stream, manifest, options, error_text) &
        bind(C, name="iow_read_stream_open") result(error)
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: service
      type(c_ptr), intent(out) :: stream
      character(kind=c_char), intent(in) :: manifest(*)
      type(c_ptr), value :: options
      type(c_ptr), intent(out) :: error_text
    end function

    integer(c_int) function c_read_stream_open_files(service, stream, paths, count, options, &
        error_text) bind(C, name="iow_read_stream_open_files") result(error)
      import :: c_int, c_ptr
      type(c_ptr), value :: service
      type(c_ptr), intent(out) :: stream
      type(c_ptr), intent(in) :: paths(*)
      integer(c_int), value :: count
      type(c_ptr), value :: options
      type(c_ptr), intent(out) :: error_text
    end function

    integer(c_int) function c_read_stream_explain(stream, lease, error, text) &
        bind(C, name="iow_read_stream_explain") result(status)
      import :: c_int, c_ptr, iow_read_lease
      type(c_ptr), value :: stream
      type(iow_read_lease), intent(in) :: lease
      integer(c_int), value :: error
      type(c_ptr), intent(out) :: text
    end function

    integer(c_int) function c_read_stream_close(stream) bind(C, name="iow_read_stream_close") &
        result(error)
      import :: c_int, c_ptr
      type(c_ptr), value :: stream
    end function

    integer(c_int) function c_plan_open(service, plan, options, error_text) &
        bind(C, name="iow_plan_open") result(error)
      import :: c_int, c_ptr
      type(c_ptr), value :: service
      type(c_ptr), intent(out) :: plan
      type(c_ptr), value :: options
      type(c_ptr), intent(out) :: error_text
    end function

    subroutine c_plan_close(plan) bind(C, name="iow_plan_close")
      import :: c_ptr
      type(c_ptr), value :: plan
    end subroutine

    integer(c_int) function c_device_create(service, name, options, error_text) &
        bind(C, name="iow_device_create") result(id)
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: service
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), value :: options
      type(c_ptr), intent(out) :: error_text
    end function

    integer(c_int) function c_flow_create(service, name, options, error_text) &
        bind(C, name="iow_flow_create") result(id)
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: service
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), value :: options
      type(c_ptr), intent(out) :: error_text
    end function

    integer(c_int) function c_flow_learned(service, flow, text) bind(C, name="iow_flow_learned")
      import :: c_int, c_int32_t, c_ptr
      type(c_ptr), value :: service
      integer(c_int32_t), value :: flow
      type(c_ptr), intent(out) :: text
    end function

    type(c_ptr) function c_service_engine(service, why) bind(C, name="iow_service_engine")
      import :: c_ptr
      type(c_ptr), value :: service
      type(c_ptr), intent(out) :: why
    end function

    type(c_ptr) function c_service_tasks(service, why) bind(C, name="iow_service_tasks")
      import :: c_ptr
      type(c_ptr), value :: service
      type(c_ptr), intent(out) :: why
    end function

    type(c_ptr) function c_version_string() bind(C, name="iow_version_string")
      import :: c_ptr
    end function

    ! open(2) has a variable list of arguments in C; on Linux a call with three works the same.
    integer(c_int) function c_open(path, flags, mode) bind(C, name="open")
      import :: c_char, c_int
      character(kind=c_char), intent(in) :: path(*)
      integer(c_int), value :: flags, mode
    end function

    type(c_ptr) function c_errno_location() bind(C, name="__errno_location")
      import :: c_ptr
    end function

    ! The strerror_r() of POSIX, which glibc has under this name. It fills `text`.
    integer(c_int) function c_strerror(error, text, bytes) bind(C, name="__xpg_strerror_r")
      import :: c_char, c_int, c_size_t
      integer(c_int), value :: error
      character(kind=c_char), intent(inout) :: text(*)
      integer(c_size_t), value :: bytes
    end function

    integer(c_size_t) function c_strlen(text) bind(C, name="strlen")
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
    end function

    subroutine c_free(memory) bind(C, name="free")
      import :: c_ptr
      type(c_ptr), value :: memory
    end subroutine
  end interface

contains

  ! Returns 0 and a service, or a negated errno, a null service and, if wanted, a sentence.
  integer(c_int) function iow_service_open(service, options, error_text) result(error)
    type(c_ptr), intent(out) :: service
    type(iow_options), intent(in), target, optional :: options
    character(:), allocatable, intent(out), optional :: error_text
    type(c_ptr) :: given, text
    given = c_null_ptr
    if (present(options)) given = c_loc(options)
    error = c_service_open(service, given, text)
    if (present(error_text)) error_text = failure_text(error, text)
    if (c_associated(text)) call c_free(text)
  end function

  ! Returns the id of a new device, or a negated errno and, if wanted, a sentence.
  integer(c_int) function iow_device_create(service, name, options, error_text) result(id)
    type(c_ptr), intent(in) :: service
    character(*), intent(in) :: name
    type(iow_device_options), intent(in), target, optional :: options
    character(:), allocatable, intent(out), optional :: error_text
    type(c_ptr) :: given, text
    given = c_null_ptr
    if (present(options)) given = c_loc(options)
    id = c_device_create(service, trim(name)//c_null_char, given, text)
    if (present(error_text)) error_text = failure_text(id, text)
    if (c_associated(text)) call c_free(text)
  end function

  ! The same for a flow. `constraint` is the constraint in words: "climb", "20", "auto(2,256,2)".
  ! `learned` is the text that iow_flow_learned() returned in an earlier run.
  integer(c_int) function iow_flow_create(service, name, options, constraint, error_text, learned) &
      result(id)
    type(c_ptr), intent(in) :: service
    character(*), intent(in) :: name
    type(iow_flow_options), intent(in), optional :: options
    character(*), intent(in), optional :: constraint
    character(:), allocatable, intent(out), optional :: error_text
    character(*), intent(in), optional :: learned
    type(iow_flow_options), target :: given
    character(kind=c_char), allocatable, target :: words(:), known(:)
    type(c_ptr) :: text
    integer :: i
    if (present(options)) given = options
    if (present(constraint)) then
      words = [(constraint(i:i), i=1, len_trim(constraint)), c_null_char]
      given%constraint = c_loc(words)
    end if
    if (present(learned)) then
      known = [(learned(i:i), i=1, len_trim(learned)), c_null_char]
      given%learned = c_loc(known)
    end if
    id = c_flow_create(service, trim(name)//c_null_char, c_loc(given), text)
    if (present(error_text)) error_text = failure_text(id, text)
    if (c_associated(text)) call c_free(text)
  end function

  ! Returns what "climb" or "auto" has learned, for iow_flow_create() in a later run; empty while it
  ! has learned nothing.
  function iow_flow_learned(service, flow) result(learned)
    type(c_ptr), intent(in) :: service
    integer(c_int32_t), intent(in) :: flow
    character(:), allocatable :: learned
    type(c_ptr) :: text
    if (c_flow_learned(service, flow, text) /= 0) continue
    learned = text_at(text)
    if (c_associated(text)) call c_free(text)
  end function

  ! Returns 0 and a write stream, or a negated errno, a null stream and, if wanted, a sentence.
  integer(c_int) function iow_write_stream_open(service, stream, options, error_text) result(error)
    type(c_ptr), intent(in) :: service
    type(c_ptr), intent(out) :: stream
    type(iow_write_stream_options), intent(in), target, optional :: options
    character(:), allocatable, intent(out), optional :: error_text
    type(c_ptr) :: given, text
    given = c_null_ptr
    if (present(options)) given = c_loc(options)
    error = c_write_stream_open(service, stream, given, text)
    if (present(error_text)) error_text = failure_text(error, text)
    if (c_associated(text)) call c_free(text)
  end function

  ! Returns the number of a file of the stream, or a negated errno and, if wanted, a sentence.
  integer(c_int) function iow_write_stream_create(stream, path, options, error_text) result(file)
    type(c_ptr), intent(in) :: stream
    character(*), intent(in) :: path
    type(iow_write_file_options), intent(in), target, optional :: options
    character(:), allocatable, intent(out), optional :: error_text
    type(c_ptr) :: given, text
    given = c_null_ptr
    if (present(options)) given = c_loc(options)
    file = c_write_stream_create(stream, trim(path)//c_null_char, given, text)
    if (present(error_text)) error_text = failure_text(file, text)
    if (c_associated(text)) call c_free(text)
  end function

  ! Ends a file. Returns 0, or its error if that was not returned before and, if wanted, a sentence
  ! that names file and offset. `durable` is true if left out.
  integer(c_int) function iow_write_stream_end(stream, file, durable, error_text) result(error)
    type(c_ptr), intent(in) :: stream
    integer(c_int), intent(in) :: file
    logical, intent(in), optional :: durable
    character(:), allocatable, intent(out), optional :: error_text
    type(c_ptr) :: text
    text = c_null_ptr
    error = c_write_stream_end(stream, file, true_if_absent(durable), text)
    if (present(error_text)) error_text = failure_text(error, text)
    if (c_associated(text)) call c_free(text)
  end function

  ! Ends all files, and the stream. Returns 0, or the first error that was not returned before, or
  ! -ECANCELED, and, if wanted, a sentence that names file and offset. `durable` is true if left out.
  integer(c_int) function iow_write_stream_close(stream, durable, error_text) result(error)
    type(c_ptr), intent(inout) :: stream
    logical, intent(in), optional :: durable
    character(:), allocatable, intent(out), optional :: error_text
    type(c_ptr) :: text
    text = c_null_ptr
    error = c_write_stream_close(stream, true_if_absent(durable), text)
    stream = c_null_ptr
    if (present(error_text)) error_text = failure_text(error, text)
    if (c_associated(text)) call c_free(text)
  end function

  ! Returns the error of a file, whether it was returned before or not, and a sentence; or 0.
  integer(c_int) function iow_write_stream_error(stream, file, text) result(error)
    type(c_ptr), intent(in) :: stream
    integer(c_int), intent(in) :: file
    character(:), allocatable, intent(out), optional :: text
    type(c_ptr) :: said
    error = c_write_stream_error(stream, file, said)
    if (present(text)) text = failure_text(error, said)
    if (c_associated(said)) call c_free(said)
  end function

  ! Begins a spread over `targets`: folders, or paths of files. Returns 0 and a spread, or a negated
  ! errno, a null spread and, if wanted, a sentence.
  integer(c_int) function iow_spread_create(stream, spread, manifest, targets, options, error_text) &
      result(error)
    type(c_ptr), intent(in) :: stream
    type(c_ptr), intent(out) :: spread
    character(*), intent(in) :: manifest
    character(*), intent(in) :: targets(:)
    type(iow_spread_options), intent(in), target, optional :: options
    character(:), allocatable, intent(out), optional :: error_text
    character(kind=c_char), target :: strings(len(targets) + 1, size(targets))
    type(c_ptr) :: given, text
    given = c_null_ptr
    if (present(options)) given = c_loc(options)
    call copy_as_c(targets, strings)
    error = c_spread_create(stream, spread, trim(manifest)//c_null_char, addresses_of(strings), &
      size(targets, kind=c_int), given, text)
    if (present(error_text)) error_text = failure_text(error, text)
    if (c_associated(text)) call c_free(text)
  end function

  ! Writes the manifest once all items are there. Returns 0, or the first error that was not returned
  ! before and, if wanted, a sentence. `durable` is true if left out.
  integer(c_int) function iow_spread_end(spread, durable, error_text) result(error)
    type(c_ptr), intent(inout) :: spread
    logical, intent(in), optional :: durable
    character(:), allocatable, intent(out), optional :: error_text
    type(c_ptr) :: text
    text = c_null_ptr
    error = c_spread_end(spread, true_if_absent(durable), text)
    spread = c_null_ptr
    if (present(error_text)) error_text = failure_text(error, text)
    if (c_associated(text)) call c_free(text)
  end function

  ! Ends a spread without a manifest.
  subroutine iow_spread_abandon(spread)
    type(c_ptr), intent(inout) :: spread
    call c_spread_abandon(spread)
    spread = c_null_ptr
  end subroutine

  ! Opens the manifest of a spread and begins to read. Returns 0 and a read stream, or a negated
  ! errno, a null stream and, if wanted, a sentence.
  integer(c_int) function iow_read_stream_open(service, stream, manifest, options, error_text) &
      result(error)
    type(c_ptr), intent(in) :: service
    type(c_ptr), intent(out) :: stream
    character(*), intent(in) :: manifest
    type(iow_read_stream_options), intent(in), target, optional :: options
    character(:), allocatable, intent(out), optional :: error_text
    type(c_ptr) :: given, text
    given = c_null_ptr
    if (present(options)) given = c_loc(options)
    error = c_read_stream_open(service, stream, trim(manifest)//c_null_char, given, text)
    if (present(error_text)) error_text = failure_text(error, text)
    if (c_associated(text)) call c_free(text)
  end function

  ! The same for plain files, each of which is an item.
  integer(c_int) function iow_read_stream_open_files(service, stream, paths, options, error_text) &
      result(error)
    type(c_ptr), intent(in) :: service
    type(c_ptr), intent(out) :: stream
    character(*), intent(in) :: paths(:)
    type(iow_read_stream_options), intent(in), target, optional :: options
    character(:), allocatable, intent(out), optional :: error_text
    character(kind=c_char), target :: strings(len(paths) + 1, size(paths))
    type(c_ptr) :: given, text
    given = c_null_ptr
    if (present(options)) given = c_loc(options)
    call copy_as_c(paths, strings)
    error = c_read_stream_open_files(service, stream, addresses_of(strings), &
      size(paths, kind=c_int), given, text)
    if (present(error_text)) error_text = failure_text(error, text)
    if (c_associated(text)) call c_free(text)
  end function

  ! Returns a sentence on an error that iow_read_stream_next() returned with this lease.
  function iow_read_stream_explain(stream, lease, error) result(words)
    type(c_ptr), intent(in) :: stream
    type(iow_read_lease), intent(in) :: lease
    integer(c_int), intent(in) :: error
    character(:), allocatable :: words
    type(c_ptr) :: text
    text = c_null_ptr
    if (c_read_stream_explain(stream, lease, error, text) /= 0) continue
    words = failure_text(error, text)
    if (c_associated(text)) call c_free(text)
  end function

  integer(c_int) function iow_read_stream_close(stream) result(error)
    type(c_ptr), intent(inout) :: stream
    error = c_read_stream_close(stream)
    stream = c_null_ptr
  end function

  ! Returns what was read as an array, as many whole values as there are. Do not use it after the
  ! lease has ended.
  function iow_read_lease_reals(lease) result(reals)
    type(iow_read_lease), intent(in) :: lease
    real(c_double), pointer, contiguous :: reals(:)
    call c_f_pointer(lease%data, reals, [lease%bytes / 8])
  end function

  ! Returns 0 and a plan, or a negated errno, a null plan and, if wanted, a sentence.
  integer(c_int) function iow_plan_open(service, plan, options, error_text) result(error)
    type(c_ptr), intent(in) :: service
    type(c_ptr), intent(out) :: plan
    type(iow_plan_options), intent(in), target, optional :: options
    character(:), allocatable, intent(out), optional :: error_text
    type(c_ptr) :: given, text
    given = c_null_ptr
    if (present(options)) given = c_loc(options)
    error = c_plan_open(service, plan, given, text)
    if (present(error_text)) error_text = failure_text(error, text)
    if (c_associated(text)) call c_free(text)
  end function

  ! Returns what was read as an array, as many whole values as there are. Do not use it after the
  ! lease has ended.
  function iow_plan_lease_reals(lease) result(reals)
    type(iow_plan_lease), intent(in) :: lease
    real(c_double), pointer, contiguous :: reals(:)
    call c_f_pointer(lease%data, reals, [lease%bytes / 8])
  end function

  subroutine iow_plan_close(plan)
    type(c_ptr), intent(inout) :: plan
    call c_plan_close(plan)
    plan = c_null_ptr
  end subroutine

  ! Copies each name to a column of `strings` as a C string, without blanks at its end.
  pure subroutine copy_as_c(names, strings)
    character(*), intent(in) :: names(:)
    character(kind=c_char), intent(out) :: strings(:, :)
    integer :: i, j
    do i = 1, size(names)
      do j = 1, len_trim(names(i))
        strings(j, i) = names(i)(j:j)
      end do
      strings(len_trim(names(i)) + 1, i) = c_null_char
    end do
  end subroutine

  ! Returns where the columns begin.
  function addresses_of(strings) result(addresses)
    character(kind=c_char), intent(in), target, contiguous :: strings(:, :)
    type(c_ptr) :: addresses(size(strings, 2))
    integer :: i
    do i = 1, size(strings, 2)
      addresses(i) = c_loc(strings(1, i))
    end do
  end function

  ! Returns the memory of a lease as an array. Do not use it after the lease was handed over.
  function iow_lease_reals(lease) result(reals)
    type(iow_lease), intent(in) :: lease
    real(c_double), pointer, contiguous :: reals(:)
    call c_f_pointer(lease%data, reals, [lease%bytes / 8])
  end function

  ! Returns a choice as C takes it; one that was left out is true.
  pure integer(c_int) function true_if_absent(choice) result(number)
    logical, intent(in), optional :: choice
    number = 1
    if (present(choice)) number = merge(1_c_int, 0_c_int, choice)
  end function

  ! Returns the text that C gave for a failure, or else the words for its errno. Its callers give it
  ! to `error_text` and free the text themselves: gfortran 12 loses the length of a string that is
  ! passed on as an optional argument.
  function failure_text(status, text) result(words)
    integer(c_int), intent(in) :: status
    type(c_ptr), intent(in) :: text
    character(:), allocatable :: words
    words = text_at(text)
    if (status < 0 .and. len(words) == 0) words = iow_error_text(status)
  end function

  ! Returns "io_uring", ...; `why` receives which engines were passed over, or nothing.
  function iow_service_engine(service, why) result(name)
    type(c_ptr), intent(in) :: service
    character(:), allocatable, intent(out), optional :: why
    character(:), allocatable :: name
    type(c_ptr) :: reason
    name = text_at(c_service_engine(service, reason))
    if (present(why)) why = text_at(reason)
  end function

  ! Returns "none", ...; `why` receives what is missing, or nothing.
  function iow_service_tasks(service, why) result(name)
    type(c_ptr), intent(in) :: service
    character(:), allocatable, intent(out), optional :: why
    character(:), allocatable :: name
    type(c_ptr) :: reason
    name = text_at(c_service_tasks(service, reason))
    if (present(why)) why = text_at(reason)
  end function

  function iow_version() result(version)
    character(:), allocatable :: version
    version = text_at(c_version_string())
  end function

  ! iow_error_text(error) returns the words for a negated errno that a function here returned or
  ! wrote to `result`.
  function error_text_of_int(error) result(text)
    integer(c_int), intent(in) :: error
    character(:), allocatable :: text
    text = error_text_of_size(int(error, c_size_t))
  end function

  function error_text_of_size(error) result(text)
    integer(c_size_t), intent(in) :: error
    character(:), allocatable :: text
    character(kind=c_char), target :: buffer(256)
    buffer = c_null_char
    if (c_strerror(int(-error, c_int), buffer, size(buffer, kind=c_size_t)) /= 0) continue
    text = text_at(c_loc(buffer))
  end function

  ! Returns a descriptor, or a negated errno. `flags` are IOW_READ_ONLY to IOW_TRUNCATE, added up.
  integer(c_int) function iow_open_file(path, flags) result(fd)
    character(*), intent(in) :: path
    integer(c_int), intent(in) :: flags
    integer(c_int), parameter :: close_on_exec = int(o'2000000', c_int), mode = int(o'666', c_int)
    integer(c_int), pointer :: errno
    fd = c_open(trim(path)//c_null_char, ior(flags, close_on_exec), mode)
    if (fd >= 0) return
    call c_f_pointer(c_errno_location(), errno)
    fd = -errno
  end function

  ! Returns the text of a C string; an empty one for a null pointer.
  function text_at(string) result(text)
    type(c_ptr), intent(in) :: string
    character(:), allocatable :: text
    character(kind=c_char), pointer :: characters(:)
    integer :: i
    if (.not. c_associated(string)) then
      text = ""
      return
    end if
    call c_f_pointer(string, characters, [c_strlen(string)])
    allocate (character(size(characters)) :: text)
    do i = 1, size(characters)
      text(i:i) = characters(i)
    end do
  end function

end module

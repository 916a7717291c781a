! Ioweave in OpenMP tasks of Fortran programs; openmp.h holds the contracts. Its guards against
! faults of the OpenMP library are C, so compile ioweave_openmp.c into the same program or library
! as the tasks, with the same compiler family:
!
!   gfortran -fopenmp ioweave.f90 ioweave_openmp.f90 ioweave_openmp.c program.f90 -lioweave
!
!   integer(omp_event_handle_kind) :: event
!   !$omp task detach(event) depend(out: a)
!   error = iow_omp_begin(service, event)
!   error = iow_ta_pread(service, fd, a, bytes, offset, result)
!   error = iow_omp_end(service)
!   !$omp end task
module ioweave_openmp
  use, intrinsic :: iso_c_binding, only: c_char, c_int, c_intptr_t, c_ptr, c_size_t
  use omp_lib, only: omp_event_handle_kind
  implicit none
  private

  public :: iow_omp_check, iow_omp_begin, iow_omp_end, iow_direct_flag

  interface
    integer(c_int) function iow_omp_end(service) bind(C, name="iow_fortran_omp_end") result(error)
      import :: c_int, c_ptr
      type(c_ptr), value :: service
    end function

    ! Returns O_DIRECT, for the flags of iow_open_file().
    integer(c_int) function iow_direct_flag() bind(C, name="iow_fortran_direct_flag") result(flag)
      import :: c_int
    end function

    integer(c_int) function c_begin(service, event) bind(C, name="iow_fortran_omp_begin")
      import :: c_int, c_intptr_t, c_ptr
      type(c_ptr), value :: service
      integer(c_intptr_t), value :: event
    end function

    ! Fills `why`, and the rest of it with blanks.
    integer(c_int) function c_check(why, bytes) bind(C, name="iow_fortran_omp_check")
      import :: c_char, c_int, c_size_t
      character(kind=c_char), intent(out) :: why(*)
      integer(c_size_t), value :: bytes
    end function
  end interface

contains

  ! Returns 0, or a negated ENOTSUP with a sentence in `why`.
  integer(c_int) function iow_omp_check(why) result(error)
    character(:), allocatable, intent(out), optional :: why
    character(512) :: text
    error = c_check(text, len(text, kind=c_size_t))
    if (present(why)) why = trim(text)
  end function

  integer(c_int) function iow_omp_begin(service, event) result(error)
    type(c_ptr), intent(in) :: service
    integer(omp_event_handle_kind), intent(in) :: event
    error = c_begin(service, int(event, c_intptr_t))
  end function

end module

! A plain MPI program in Fortran, which knows nothing of Ioweave: reads of all kinds, by regular steps. Each rank notes what they
! returned and read in a file of its own.
!
! Usage: mpirun -n RANKS fortran_program FOLDER
!
! Compiled once for each of Fortran's interfaces to MPI: with -DUSE_MPI (the module mpi), -DUSE_MPI_F08 (the module mpi_f08), or
! neither (mpif.h).
#if defined(USE_MPI_F08)
#define HANDLE(kind) type(kind)
#define STATUS_OF(name) type(MPI_Status) :: name
#else
#define HANDLE(kind) integer
#define STATUS_OF(name) integer :: name(MPI_STATUS_SIZE)
#endif
program fortran_program
#if defined(USE_MPI_F08)
  use mpi_f08
#elif defined(USE_MPI)
  use mpi
#endif
  use, intrinsic :: iso_fortran_env, only: int64
  implicit none
#if !defined(USE_MPI_F08) && !defined(USE_MPI)
  include 'mpif.h'
#endif
  integer, parameter :: block = 4096, blocks = 256  ! integers of 4 bytes, and how many times so many the file has
  HANDLE(MPI_File) :: file
  HANDLE(MPI_Datatype) :: stripes
  HANDLE(MPI_Request) :: request
  STATUS_OF(status)
  integer :: buffer(block), rank, ranks, ierr, i, notes
  integer(MPI_OFFSET_KIND) :: offset, bytes
  character(len=1024) :: folder
  character(len=8) :: digits
  character(len=:), allocatable :: name

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  call get_command_argument(1, folder)
  write (digits, '(i0)') rank
  open (newunit=notes, file=trim(folder)//'/log.'//trim(digits), status='replace', action='write')
  name = trim(folder)//'/data'

  call MPI_File_open(MPI_COMM_WORLD, trim(folder)//'/missing', MPI_MODE_RDONLY, MPI_INFO_NULL, file, ierr)
  write (notes, *) 'missing', ierr /= MPI_SUCCESS

  call MPI_File_open(MPI_COMM_WORLD, name, ior(MPI_MODE_RDWR, MPI_MODE_CREATE), MPI_INFO_NULL, file, ierr)
  write (notes, *) 'create', ierr
  do i = rank, blocks - 1, ranks
    call fill(i)
    offset = int(i, MPI_OFFSET_KIND) * block * 4
    call MPI_File_write_at(file, offset, buffer, block, MPI_INTEGER, status, ierr)
    if (ierr /= MPI_SUCCESS) write (notes, *) 'write', i, ierr
  end do
  call MPI_File_close(file, ierr)
  call MPI_Barrier(MPI_COMM_WORLD, ierr)

  call MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, file, ierr)
  write (notes, *) 'open', ierr
  do i = 0, blocks, 4  ! the last one is behind the end
    offset = int(i, MPI_OFFSET_KIND) * block * 4
    call MPI_File_read_at(file, offset, buffer, block, MPI_INTEGER, status, ierr)
    call note('read_at', i < blocks)
  end do
  do i = 0, 15
    call MPI_File_read(file, buffer, block, MPI_INTEGER, status, ierr)
    call note('read', .true.)
  end do
  call MPI_File_read(file, buffer, block, MPI_INTEGER, MPI_STATUS_IGNORE, ierr)
  write (notes, *) 'without a status', ierr, total()

  ! Every rank has blocks of its own.
  call MPI_Type_vector(blocks / ranks, block, block * ranks, MPI_INTEGER, stripes, ierr)
  call MPI_Type_commit(stripes, ierr)
  offset = int(rank, MPI_OFFSET_KIND) * block * 4
  call MPI_File_set_view(file, offset, MPI_INTEGER, stripes, 'native', MPI_INFO_NULL, ierr)
  write (notes, *) 'set_view', ierr
  do i = 1, 16
    call MPI_File_read_all(file, buffer, block, MPI_INTEGER, status, ierr)
    call note('read_all', .true.)
  end do
  do i = 1, 16
    call MPI_File_iread(file, buffer, block, MPI_INTEGER, request, ierr)
    call MPI_Wait(request, status, ierr)
    call note('iread', .true.)
  end do
  do i = 1, 8
    call MPI_File_read_all_begin(file, buffer, block, MPI_INTEGER, ierr)
    call MPI_File_read_all_end(file, buffer, status, ierr)
    call note('read_all_begin', .true.)
  end do
  do i = 0, 7
    offset = int(i, MPI_OFFSET_KIND) * block
    call MPI_File_read_at_all(file, offset, buffer, block, MPI_INTEGER, status, ierr)
    call note('read_at_all', .true.)
    call MPI_File_iread_at(file, offset, buffer, block, MPI_INTEGER, request, ierr)
    call MPI_Wait(request, status, ierr)
    call note('iread_at', .true.)
  end do
  call MPI_File_get_position(file, offset, ierr)
  call MPI_File_get_size(file, bytes, ierr)
  write (notes, *) 'position', offset, 'size', bytes
  call MPI_Type_free(stripes, ierr)
  call MPI_File_close(file, ierr)
  write (notes, *) 'close', ierr
  close (notes)
  call MPI_Finalize(ierr)

contains

  subroutine fill(number)
    integer, intent(in) :: number
    integer :: k

    buffer = [(ieor(number * 65599, k * 40503), k = 1, block)]
  end subroutine fill

  function total()
    integer(int64) :: total
    integer :: k

    total = 0
    do k = 1, block
      total = total + int(buffer(k), int64) * k
    end do
  end function total

  !> Notes a read of this kind. Behind the end of a file, a buffer has what was in it before.
  subroutine note(kind, has_data)
    character(len=*), intent(in) :: kind
    logical, intent(in) :: has_data
    integer :: count

    call MPI_Get_count(status, MPI_INTEGER, count, ierr)
    if (has_data) then
      write (notes, *) kind, ierr, count, total()
    else
      write (notes, *) kind, ierr, count
    end if
    buffer = 0
  end subroutine note

end program fortran_program

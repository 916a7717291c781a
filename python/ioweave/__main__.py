from ioweave._command import main

main()

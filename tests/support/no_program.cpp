// Only there to compile the headers of ioweave_test_headers.
int main() {}

// A plain reader in Go, whose runtime makes its system calls itself: no library can be put in
// between. Usage: bench_cold_reader_go FILE CHUNK_BYTES
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
)

func bytesOf(path string, chunkBytes int) (int64, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	chunk := make([]byte, chunkBytes)
	total := int64(0)
	for {
		count, err := file.Read(chunk)
		total += int64(count)
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: cold_reader_go FILE CHUNK_BYTES")
		os.Exit(2)
	}
	chunkBytes, err := strconv.Atoi(os.Args[2])
	if err == nil && chunkBytes < 1 {
		err = errors.New("a chunk has at least one byte")
	}
	total := int64(0)
	if err == nil {
		total, err = bytesOf(os.Args[1], chunkBytes)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cold_reader_go:", err)
		os.Exit(1)
	}
	fmt.Println(total)
}

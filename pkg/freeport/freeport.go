// Package freeport picks loopback ports for tests and scenarios that name a port before a process listens at it.
//
// A port that was found by listening at port 0 lies in the range from which the kernel also takes the local ports of
// outgoing connections. Between the look and the listen, or while a server restarts, any connection of the machine may
// take it, even one that a client makes to that very port. So ports come from below that range.
//
// Guarantees:
//
//  1. A process never returns a port twice.
//  2. Two processes of one machine never return the same port while both run: each locks a block of ports by listening
//     at its first port, which the kernel ends with the process, however it ends.
//  3. No process listens at the port on 127.0.0.1 at the moment it is returned.
package freeport

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
)

// The ports that are picked: blocks of blockSize from first on, all below 32768, where Linux begins to take the local
// ports of outgoing connections.
const (
	first     = 10_240
	blockSize = 64
	blocks    = 350
)

// held are the blocks that this process has locked.
var held struct {
	sync.Mutex
	locks     []net.Listener
	next, end int // the ports that are left of the last block
}

// Take returns a port of the loopback address that is free at the moment. It is safe for concurrent use.
func Take() (int, error) {
	held.Lock()
	defer held.Unlock()
	for range blocks * blockSize {
		if held.next == held.end {
			if err := lockBlock(); err != nil {
				return 0, err
			}
		}
		port := held.next
		held.next++
		if l, err := net.Listen("tcp", Address(port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no port is free: processes listen at all of them")
}

// Address returns the loopback address of a port.
func Address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// lockBlock locks a block that no process has locked: the process listens at the block's first port until it ends, and
// takes the others. The search begins where the process id says, so that processes seldom meet.
func lockBlock() error {
	for i := range blocks {
		n := (os.Getpid() + i) % blocks
		lock := first + n*blockSize
		l, err := net.Listen("tcp", Address(lock))
		if err != nil {
			continue
		}
		held.locks = append(held.locks, l)
		held.next, held.end = lock+1, lock+blockSize
		return nil
	}
	return fmt.Errorf("pick a free port: processes listen at the first port of all %d blocks", blocks)
}

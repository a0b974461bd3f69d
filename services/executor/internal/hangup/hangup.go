// Package hangup handles SIGHUP in a program that starts others.
//
// Started by nohup, a program inherits that SIGHUP is ignored, and so would every program that it starts: an agent
// that reloads its configuration at SIGHUP would never receive it. A signal with a handler is reset to its default in
// the programs that a Go program starts.
//
// Guarantees:
//
//  1. After Handle, every program that this process starts receives SIGHUP, however this process was started.
//  2. A process that was started to ignore SIGHUP keeps ignoring it, also as the program of Exec.
//  3. Any other process stops at SIGHUP as it does at SIGTERM.
package hangup

import (
	"os"
	"os/signal"
	"syscall"
)

// ignored is read before anything can handle the signal.
var ignored = signal.Ignored(syscall.SIGHUP)

// received takes the signals; more than one says no more than one.
var received = make(chan os.Signal, 1)

// Handle handles SIGHUP from now on. stop is called for each unless this process was started to ignore it.
func Handle(stop func()) {
	signal.Notify(received, syscall.SIGHUP)
	go func() {
		for range received {
			if !ignored {
				stop()
			}
		}
	}()
}

// Exec replaces the program of this process, as syscall.Exec does. It returns only when that fails.
func Exec(program string, args, env []string) error {
	if !ignored {
		return syscall.Exec(program, args, env)
	}
	signal.Ignore(syscall.SIGHUP)
	defer signal.Notify(received, syscall.SIGHUP)
	return syscall.Exec(program, args, env)
}

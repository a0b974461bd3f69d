package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/garrison-fleet/garrison/e2e/testlog"
)

// measuring is the first argument of a testlane that go test starts in the place of a test binary.
const measuring = "measured"

// measured runs a test binary and prints the CPU time of it and of all its processes that ended and were waited for. It
// returns the exit code. The test binary receives the signals by which go test ends one that hangs.
func measured(args []string) int {
	c := exec.Command(args[0], args[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // as when go test kills it
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	if err := c.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "testlane:", err)
		return 1
	}
	go func() {
		for s := range signals {
			_ = c.Process.Signal(s) // it may have ended
		}
	}()
	err := c.Wait()
	testlog.PrintCPU(os.Stdout, c.ProcessState.UserTime()+c.ProcessState.SystemTime())
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return 128 + int(status.Signal())
		}
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testlane:", err)
		return 1
	}
	return 0
}

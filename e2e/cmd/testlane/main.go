// Command testlane runs go test, prints a line for each package as it ends, and ends with what failed, why, and where
// the whole output is, and with the seconds of CPU that all of it took. With -limit it also fails when the tests of a
// package take longer, and with -cpu when their processes take more CPU.
//
//	testlane [-logs DIR] [-limit 60s] [-cpu 60s] -- [go test's flags and packages]
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/garrison-fleet/garrison/e2e/testlog"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == measuring {
		os.Exit(measured(os.Args[2:]))
	}
	logs := flag.String("logs", filepath.Join(os.TempDir(), "garrison-tests"), "directory of the output of what fails")
	var most limits
	flag.DurationVar(&most.time, "limit", 0, "longest time for the tests of a package; 0 means any")
	flag.DurationVar(&most.cpu, "cpu", 0, "most CPU time for the tests of a package and their processes; 0 means any")
	flag.Parse()
	if err := run(*logs, most, flag.Args()); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "testlane:", err)
		os.Exit(1)
	}
}

// limits are what the tests of a package may take; 0 means any.
type limits struct{ time, cpu time.Duration }

// exceeded returns what a package took too much of, or an empty string.
func (l limits) exceeded(p *testlog.Package) string {
	switch {
	case l.time > 0 && p.Elapsed > l.time:
		return fmt.Sprintf("the limit is %s", l.time)
	case l.cpu > 0 && p.CPU > l.cpu:
		return fmt.Sprintf("the limit of CPU is %s", l.cpu)
	}
	return ""
}

func run(dir string, most limits, args []string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	log := testlog.New(dir, func(p *testlog.Package) { printPackage(p, most) })
	began := time.Now()
	cpu, failed := goTest(log, args)
	failures := log.Failures()
	slow := overLimit(log, most)
	for _, line := range log.Other() {
		fmt.Println(line)
	}
	summary(os.Stdout, log, time.Since(began), cpu)
	if err := record(filepath.Join(dir, "failures"), failures); err != nil {
		return err
	}
	switch {
	case len(failures) > 0:
		return fmt.Errorf("%d failed; the output of each failed package is in %s", len(failures), dir)
	case failed != nil:
		return failed
	case slow > 0:
		return fmt.Errorf("the tests of %d packages took too long; make them cheaper, or split the package", slow)
	}
	return nil
}

// record prints failures, and appends them to a file for a run of several lanes.
func record(path string, failures []testlog.Failure) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	testlog.Print(io.MultiWriter(os.Stdout, file), failures)
	return file.Close()
}

// goTest runs go test and reads what it prints. It returns the CPU time of all processes that it waited for. Its error
// says nothing new when a test failed.
func goTest(log *testlog.Log, args []string) (cpu time.Duration, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	c := exec.Command("go", append([]string{"test", "-json", "-exec", self + " " + measuring}, args...)...)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := c.Start(); err != nil {
		return 0, err
	}
	err = log.Read(out)
	if err != nil {
		_, _ = io.Copy(io.Discard, out) // or go test waits for its reader
	}
	if end := c.Wait(); end != nil {
		err = errors.Join(err, fmt.Errorf("go test: %w", end))
	}
	return c.ProcessState.UserTime() + c.ProcessState.SystemTime(), err
}

func printPackage(p *testlog.Package, most limits) {
	result, why := "ok", most.exceeded(p)
	switch {
	case p.Failed:
		result = "FAIL"
	case p.Passed+p.Skipped == 0: // no tests
		return
	case why != "":
		result, why = "SLOW", ", "+why
	}
	fmt.Printf("%-5s %-70s %7.1fs %7.1fs of CPU%s\n", result, p.Path, p.Elapsed.Seconds(), p.CPU.Seconds(), why)
}

func overLimit(log *testlog.Log, most limits) (n int) {
	for _, p := range log.Packages() {
		if most.exceeded(p) != "" {
			n++
		}
	}
	return n
}

func summary(to io.Writer, log *testlog.Log, took, cpu time.Duration) {
	passed, skipped, packages := 0, 0, 0
	for _, p := range log.Packages() {
		if passed, skipped = passed+p.Passed, skipped+p.Skipped; p.Passed > 0 {
			packages++
		}
	}
	_, _ = fmt.Fprintf(to, "%d tests passed in %d packages, %d skipped, %s, %d s of CPU\n", passed,
		packages, skipped, took.Round(time.Second), int(cpu.Seconds()))
}

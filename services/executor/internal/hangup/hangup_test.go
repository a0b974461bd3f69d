package hangup_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/services/executor/internal/hangup"
)

const roleVariable = "HANGUP_TEST_ROLE"

// TestMain is also the program that the test starts.
func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "":
		os.Exit(m.Run())
	case "bare": // starts a program without handling the signal
		play(func() {})
	case "first": // becomes another program once
		hangup.Handle(func() { os.Exit(7) })
		_ = os.Setenv(roleVariable, "second")
		fmt.Println(hangup.Exec("/proc/self/exe", os.Args[:1], os.Environ()))
		os.Exit(1)
	case "second":
		play(func() { hangup.Handle(func() { os.Exit(7) }) })
	}
}

// play prints how a program ends that this one starts and that receives SIGHUP, and waits for a SIGHUP of its own.
func play(handle func()) {
	handle()
	out, err := exec.Command("sh", "-c", "kill -HUP $$; echo survived").Output()
	fmt.Printf("child %q %v\n", out, err)
	time.Sleep(5 * time.Minute)
}

// run starts the program and returns its first line, and how it ends when it receives SIGHUP; "" when it goes on. Only
// a program that is expected to end is awaited for long.
func run(t *testing.T, role string, nohup, ends bool) (line, end string) {
	t.Helper()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // the child begins with the default
	if nohup {
		signal.Ignore(syscall.SIGHUP)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	line, _ = bufio.NewReader(out).ReadString('\n')
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	go func() { ended <- cmd.Wait() }()
	within := 300 * time.Millisecond
	if ends {
		within = time.Minute
	}
	select {
	case err := <-ended:
		return strings.TrimSpace(line), fmt.Sprint(err)
	case <-time.After(within):
		_ = cmd.Process.Kill()
		<-ended
		return strings.TrimSpace(line), ""
	}
}

func TestAProgramStartedUnderNohupReceivesSIGHUP(t *testing.T) {
	const hungUp, survived = `child "" signal: hangup`, `child "survived\n" <nil>`
	for _, c := range []struct {
		role      string
		nohup     bool
		line, end string
	}{
		{"bare", true, survived, ""}, // the defect
		{"first", true, hungUp, ""},
		{"first", false, hungUp, "exit status 7"},
	} {
		if line, end := run(t, c.role, c.nohup, c.end != ""); line != c.line || end != c.end {
			t.Errorf("%s, nohup %t: %s, it ends with %q; want %s, %q", c.role, c.nohup, line, end, c.line, c.end)
		}
	}
}

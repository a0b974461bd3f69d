package cli

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestColorNeedsATerminalUnlessItIsForced(t *testing.T) {
	terminal := openTerminal(t)
	for _, c := range []struct {
		flag          string
		env           map[string]string
		onIt, onOther bool
	}{
		{colorAuto, nil, true, false},
		{colorAuto, map[string]string{"NO_COLOR": "1"}, false, false},
		{colorAuto, map[string]string{"TERM": "dumb"}, false, false},
		{colorAuto, map[string]string{"CLICOLOR_FORCE": "1"}, true, true},
		{colorAuto, map[string]string{"CLICOLOR_FORCE": "0"}, true, false},
		{colorAuto, map[string]string{"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, false, false},
		{colorNever, map[string]string{"CLICOLOR_FORCE": "1"}, false, false},
		{colorAlways, map[string]string{"NO_COLOR": "1"}, true, true},
	} {
		env := NewEnv(nil, terminal, &bytes.Buffer{}, func(name string) string { return c.env[name] })
		env.Color = c.flag
		if have := bool(env.paints(env.Out)); have != c.onIt {
			t.Errorf("--color %s, %v: on a terminal: %v", c.flag, c.env, have)
		}
		if have := bool(env.paints(env.Err)); have != c.onOther {
			t.Errorf("--color %s, %v: elsewhere: %v", c.flag, c.env, have)
		}
	}
}

// openTerminal returns a terminal that ends with the test.
func openTerminal(t *testing.T) *os.File {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no terminal can be made here: %v", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = slave.Close() })
	return slave
}

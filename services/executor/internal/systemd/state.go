package systemd

import (
	"encoding/hex"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/godbus/dbus/v5"
)

// state is what systemd says about a service at one moment.
type state struct {
	load, active, sub, result string
	invocation                string // the id of the start
	pid                       int    // the main process; 0: none runs
	lastPid                   int    // the main process that runs or ran last
	job                       bool   // systemd has work queued for it
	startedAt                 time.Time
	code, status              int32 // how the main process last ended, as waitid(2) says it
	group                     string
}

// state reads the state of a service. An unknown service is inactive and not found.
func (b *bus) state(name string) (s state, err error) {
	var all map[string]dbus.Variant
	if err := b.callAt(objectPath(name), "org.freedesktop.DBus.Properties.GetAll", []any{&all}, ""); err != nil {
		return s, err
	}
	s.load, s.active, s.sub = text(all, "LoadState"), text(all, "ActiveState"), text(all, "SubState")
	s.result, s.group = text(all, "Result"), text(all, "ControlGroup")
	id, _ := all["InvocationID"].Value().([]byte)
	s.invocation = hex.EncodeToString(id)
	s.pid, s.lastPid = int(number(all, "MainPID")), int(number(all, "ExecMainPID"))
	if job, _ := all["Job"].Value().([]any); len(job) == 2 {
		s.job = job[0] != uint32(0)
	}
	s.code, _ = all["ExecMainCode"].Value().(int32)
	s.status, _ = all["ExecMainStatus"].Value().(int32)
	if at, _ := all["ExecMainStartTimestamp"].Value().(uint64); at > 0 {
		s.startedAt = time.UnixMicro(int64(at))
	}
	return s, nil
}

func text(all map[string]dbus.Variant, name string) string {
	s, _ := all[name].Value().(string)
	return s
}

func number(all map[string]dbus.Variant, name string) uint32 {
	n, _ := all[name].Value().(uint32)
	return n
}

// runs reports whether a main process runs and is not being stopped.
func (s state) runs() bool {
	return s.pid != 0 && (s.active == "active" || s.active == "activating" || s.active == "reloading")
}

// gone reports whether systemd does not know the service.
func (s state) gone() bool { return s.load == "not-found" && s.rests() }

// rests reports whether the service is down and systemd does nothing with it.
func (s state) rests() bool { return !s.job && (s.active == "inactive" || s.active == "failed") }

// startLimited reports whether systemd has given up starting it.
func (s state) startLimited() bool { return s.result == "start-limit-hit" }

// How a process ended (waitid(2)).
const (
	cldExited = 1
	cldKilled = 2
	cldDumped = 3
)

// how returns how the main process ended, in the words of package os.
func (s state) how() string {
	var words string
	switch s.code {
	case cldExited:
		words = fmt.Sprintf("exit status %d", s.status)
	case cldKilled:
		words = "signal: " + syscall.Signal(s.status).String()
	case cldDumped:
		words = "signal: " + syscall.Signal(s.status).String() + " (core dumped)"
	default:
		words = "ended"
	}
	switch s.result {
	case "", "success", "exit-code", "signal", "core-dump", "start-limit-hit":
		return words
	}
	return words + " (" + s.result + ")"
}

// notSetUp reports whether systemd's own set-up of the process failed (systemd.exec(5), process exit codes).
func (s state) notSetUp() bool { return s.code == cldExited && s.status >= 200 && s.status <= 245 }

// objectPath returns the path of a unit's D-Bus object.
func objectPath(name string) dbus.ObjectPath {
	var out strings.Builder
	out.WriteString(unitPath)
	for i := range len(name) {
		c := name[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || i > 0 && '0' <= c && c <= '9' {
			out.WriteByte(c)
		} else {
			fmt.Fprintf(&out, "_%02x", c)
		}
	}
	return dbus.ObjectPath(out.String())
}

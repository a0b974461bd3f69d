package systemd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"
)

const (
	destination = "org.freedesktop.systemd1"
	managerPath = "/org/freedesktop/systemd1"
	unitPath    = managerPath + "/unit/"
	manager     = destination + ".Manager."

	connectWithin = 5 * time.Second
	callWithin    = 15 * time.Second // for one call: a loaded systemd is slow, a dead one is not waited for
)

// bus is a connection to systemd over the system bus, made anew when it breaks.
type bus struct {
	mu     sync.Mutex
	conn   *dbus.Conn
	held   map[string]bool // the services that systemd keeps for this connection when they end
	silent time.Time       // when it last took a connection and did not answer
}

var errSilent = fmt.Errorf("no answer within %s", connectWithin)

func (b *bus) open() (*dbus.Conn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conn != nil && b.conn.Connected() {
		return b.conn, nil
	}
	if time.Since(b.silent) < connectWithin { // whoever waited meanwhile does not wait again, one after another
		return nil, fmt.Errorf("connect to the system bus: %w", errSilent)
	}
	conn, err := connect()
	if errors.Is(err, errSilent) {
		b.silent = time.Now()
	}
	if err != nil {
		return nil, fmt.Errorf("connect to the system bus: %w", err)
	}
	b.conn, b.held = conn, map[string]bool{}
	return conn, nil
}

// connect connects, and gives up on a bus that takes the connection and does not answer: the
// library waits for it for ever.
func connect() (*dbus.Conn, error) {
	ctx, cancel := context.WithCancelCause(context.Background()) // the connection ends with it
	late := time.AfterFunc(connectWithin, func() { cancel(errSilent) })
	conn, err := dbus.ConnectSystemBus(dbus.WithContext(ctx))
	if late.Stop() && err == nil {
		return conn, nil
	}
	if conn != nil {
		_ = conn.Close()
	}
	return nil, cmp.Or(context.Cause(ctx), err)
}

func (b *bus) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conn == nil {
		return nil
	}
	return b.conn.Close()
}

// call calls a method of systemd's manager. out is where its answer goes, or nothing.
func (b *bus) call(method string, out []any, args ...any) error {
	return b.callAt(managerPath, manager+method, out, args...)
}

func (b *bus) callAt(path dbus.ObjectPath, method string, out []any, args ...any) error {
	conn, err := b.open()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), callWithin)
	defer cancel()
	call := conn.Object(destination, path).CallWithContext(ctx, method, 0, args...)
	if call.Err == nil {
		call.Err = call.Store(out...)
	}
	if call.Err != nil {
		return fmt.Errorf("systemd %s: %w", method[strings.LastIndexByte(method, '.')+1:], call.Err)
	}
	return nil
}

// property is one setting of a transient unit.
type property struct {
	Name  string
	Value dbus.Variant
}

// aux would be further units to start with one.
type aux struct {
	Name       string
	Properties []property
}

// startTransient makes and starts a service, which is held.
func (b *bus) startTransient(name string, p []property) error {
	p = append(p, set("AddRef", true))
	err := b.call("StartTransientUnit", []any{new(dbus.ObjectPath)}, name, "replace", p, []aux{})
	if err == nil {
		b.holds(name, true)
	}
	return err
}

func (b *bus) stop(name string) error {
	return ignore(b.call("StopUnit", []any{new(dbus.ObjectPath)}, name, "replace"), noSuchUnit)
}

// forget has systemd drop what it remembers of a service that ended.
func (b *bus) forget(name string) error {
	return errors.Join(ignore(b.call("ResetFailedUnit", nil, name), noSuchUnit), b.release(name))
}

// hold keeps systemd from dropping a service when it ends, so that it can be read how,
// until it is released or we are not connected any more.
func (b *bus) hold(name string) error {
	if _, err := b.open(); err != nil || b.holds(name, true) {
		return err
	}
	err := b.call("RefUnit", nil, name)
	if err != nil {
		b.holds(name, false)
	}
	return err
}

func (b *bus) release(name string) error {
	if !b.holds(name, false) {
		return nil
	}
	return ignore(b.call("UnrefUnit", nil, name), noSuchUnit, notReferenced)
}

// holds notes whether a service is held, and gives whether it was.
func (b *bus) holds(name string, now bool) (was bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was = b.held[name]
	if now {
		b.held[name] = true
	} else {
		delete(b.held, name)
	}
	return was
}

func (b *bus) signal(name string, signal int32) error {
	return ignore(b.call("KillUnit", nil, name, "main", signal), noSuchUnit, noSuchProcess)
}

// list gives the names of the services that systemd has of a prefix.
func (b *bus) list(prefix string) (names []string, err error) {
	var units []struct {
		Name, Description, Load, Active, Sub, Following string
		Path                                            dbus.ObjectPath
		JobID                                           uint32
		JobType                                         string
		JobPath                                         dbus.ObjectPath
	}
	err = b.call("ListUnitsByPatterns", []any{&units}, []string{}, []string{prefix + "*" + suffix})
	for _, u := range units {
		names = append(names, u.Name)
	}
	return names, err
}

// processes gives the ids of everything that runs in a service.
func (b *bus) processes(name string) (pids []int, err error) {
	var all []struct {
		Group   string
		Pid     uint32
		Command string
	}
	err = b.call("GetUnitProcesses", []any{&all}, name)
	for _, p := range all {
		pids = append(pids, int(p.Pid))
	}
	return pids, ignore(err, noSuchUnit)
}

// The names of errors that are as good as what was asked for.
const (
	noSuchUnit    = destination + ".NoSuchUnit"
	notReferenced = destination + ".NotReferenced"
	noSuchProcess = destination + ".NoSuchProcess"
	unitExists    = destination + ".UnitExists"
)

func isError(err error, name string) bool {
	var e dbus.Error
	return errors.As(err, &e) && e.Name == name
}

func ignore(err error, names ...string) error {
	for _, n := range names {
		if isError(err, n) {
			return nil
		}
	}
	return err
}

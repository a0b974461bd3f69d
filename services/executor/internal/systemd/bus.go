package systemd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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
	callWithin    = 15 * time.Second // for one call: enough for a loaded systemd
)

// bus is a connection to systemd over the system bus. It reconnects when the connection breaks.
type bus struct {
	mu     sync.Mutex
	conn   *dbus.Conn
	held   map[string]bool // the services that systemd keeps for this connection when they end
	silent time.Time       // when the bus last accepted a connection and did not answer
}

var errSilent = fmt.Errorf("no answer within %s", connectWithin)

func (b *bus) open() (*dbus.Conn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conn != nil && b.conn.Connected() {
		return b.conn, nil
	}
	if time.Since(b.silent) < connectWithin { // callers that waited for the lock do not wait again in turn
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

// connect connects, with a time-out for a bus that accepts the connection and does not answer: the library has none.
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

// call calls a method of systemd's manager and stores the answer in out.
func (b *bus) call(method string, out []any, args ...any) error {
	return b.callAt(managerPath, manager+method, out, args...)
}

// callAt calls a method of one of systemd's objects.
func (b *bus) callAt(path dbus.ObjectPath, method string, out []any, args ...any) error {
	return b.callTo(destination, path, method, out, args...)
}

// callTo calls a method of an object of a name on the bus.
func (b *bus) callTo(to string, path dbus.ObjectPath, method string, out []any, args ...any) error {
	conn, err := b.open()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), callWithin)
	defer cancel()
	call := conn.Object(to, path).CallWithContext(ctx, method, 0, args...)
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

// aux is the type of further units in a StartTransientUnit call.
type aux struct {
	Name       string
	Properties []property
}

// startTransient creates and starts a service, and holds it.
func (b *bus) startTransient(name string, p []property) error {
	p = append(p, set("AddRef", true))
	err := b.call("StartTransientUnit", []any{new(dbus.ObjectPath)}, name, "replace", p, []aux{})
	if err == nil {
		b.setHeld(name, true)
	}
	return err
}

func (b *bus) stop(name string) error {
	return ignore(b.call("StopUnit", []any{new(dbus.ObjectPath)}, name, "replace"), noSuchUnit)
}

// forget makes systemd drop an ended service.
func (b *bus) forget(name string) error {
	return errors.Join(ignore(b.call("ResetFailedUnit", nil, name), noSuchUnit), b.release(name))
}

// hold keeps systemd from dropping a service when it ends, so that its result stays readable until release or the end
// of the connection.
func (b *bus) hold(name string) error {
	if _, err := b.open(); err != nil || b.setHeld(name, true) {
		return err
	}
	err := b.call("RefUnit", nil, name)
	if err != nil {
		b.setHeld(name, false)
	}
	return err
}

func (b *bus) release(name string) error {
	if !b.setHeld(name, false) {
		return nil
	}
	return ignore(b.call("UnrefUnit", nil, name), noSuchUnit, notReferenced)
}

// setHeld notes whether a service is held, and returns whether it was.
func (b *bus) setHeld(name string, now bool) (was bool) {
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

// list returns the names of systemd's services with a prefix.
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

// processes returns the ids of all processes in a service.
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

// Names of D-Bus errors after which the wanted state holds already.
const (
	noSuchUnit    = destination + ".NoSuchUnit"
	notReferenced = destination + ".NotReferenced"
	noSuchProcess = destination + ".NoSuchProcess"
	unitExists    = destination + ".UnitExists"
)

func isError(err error, names ...string) bool {
	var e dbus.Error
	return errors.As(err, &e) && slices.Contains(names, e.Name)
}

func ignore(err error, names ...string) error {
	if isError(err, names...) {
		return nil
	}
	return err
}

// enabled is the state of a service that starts with the machine and can be disabled.
const enabled = "enabled"

// fixed are the states of services that systemd cannot disable.
var fixed = []string{"static", "generated", "indirect"}

// starters are the properties of a service that name the units which start it.
var starters = []string{"WantedBy", "RequiredBy", "UpheldBy"}

// returns reports why a service with these properties starts again although it was stopped and disabled, or "".
func (b *bus) returns(all map[string]dbus.Variant) (string, error) {
	if state := text(all, "UnitFileState"); slices.Contains(fixed, state) {
		var by []string
		for _, name := range starters {
			units, _ := all[name].Value().([]string)
			by = append(by, units...)
		}
		slices.Sort(by)
		if len(by) > 0 {
			return fmt.Sprintf("it is %s, which cannot be disabled, and %s starts it", state,
				strings.Join(slices.Compact(by), ", ")), nil
		}
	}
	name := text(all, "BusName")
	if name == "" {
		return "", nil
	}
	activatable, err := b.activatable()
	if err == nil && slices.Contains(activatable, name) {
		return "D-Bus starts it when a program asks for " + name, nil
	}
	return "", err
}

// activatable returns the names on the system bus for which D-Bus starts a service.
func (b *bus) activatable() (names []string, err error) {
	err = b.callTo("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus.ListActivatableNames",
		[]any{&names})
	return names, err
}

// fileState returns whether a unit starts with the machine, in systemd's words, such as enabled or static.
func (b *bus) fileState(name string) (string, error) {
	var v dbus.Variant
	err := b.callAt(objectPath(name), "org.freedesktop.DBus.Properties.Get", []any{&v}, destination+".Unit",
		"UnitFileState")
	s, _ := v.Value().(string)
	return s, err
}

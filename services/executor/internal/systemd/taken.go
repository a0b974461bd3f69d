package systemd

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// A service that another program installed can be adopted. It stays systemd's: systemd restarts it under its own
// settings, and the executor starts it when systemd has given up or was never to restart it. Nothing of it is changed
// before Stop.

// taken is an adopted service.
type taken struct {
	is change.Adoption

	undo bool // the next start enables the service, which Stop disabled; under the unit's changing

	mu  sync.Mutex
	now *change.Adoption // with the process that runs now; nil before the first look
}

// Service returns the service of a name, which may be an alias. The own name of it is the one to keep: an alias that
// Alias= made is gone once the service is disabled.
func (s *Supervisor) Service(name string) (supervise.Service, error) {
	var all map[string]dbus.Variant
	err := s.bus.callAt(objectPath(name), "org.freedesktop.DBus.Properties.GetAll", []any{&all}, "")
	if err != nil {
		return supervise.Service{}, err
	}
	by, _ := all["TriggeredBy"].Value().([]string)
	transient, _ := all["Transient"].Value().(bool)
	returns, err := s.bus.returns(all)
	return supervise.Service{
		Name: text(all, "Id"), Pid: int(number(all, "MainPID")), Enabled: text(all, "UnitFileState") == enabled,
		Transient: transient, TriggeredBy: by, Returns: returns,
	}, err
}

// TakeService returns a unit that has an adopted service.
func (s *Supervisor) TakeService(
	spec supervise.Spec, is change.Adoption, log zerolog.Logger, changed func(),
) supervise.Unit {
	u := s.unit(spec, log, changed)
	u.name, u.taken = is.Service, &taken{is: is}
	return u
}

// IsGuest reports whether the service is an adopted one.
func (u *unit) IsGuest() bool { return u.taken != nil }

// Adoption returns the adoption with the process that runs now; nil for a service of Garrison's own.
func (u *unit) Adoption() *change.Adoption {
	if u.taken == nil {
		return nil
	}
	t, pid := u.taken, u.Status().Pid
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now != nil && t.now.Pid == pid && supervise.Lives(t.now) && supervise.Runs(t.now) {
		return t.now
	}
	if pid == t.is.Pid && supervise.Lives(&t.is) {
		t.now = &t.is
		return t.now
	}
	next, err := supervise.Renew(t.is, pid, u.spec.Path)
	if err != nil {
		next.Same = false // what runs is not known
		u.log.Warn().Err(err).Msg("program of an adopted service not compared")
		return &next
	}
	next.StartedAt = u.Status().StartedAt
	t.now = &next
	return t.now
}

// startTaken starts an adopted service, and returns once its main process runs.
func (u *unit) startTaken() error {
	if u.taken.undo {
		if err := u.enable(true); err != nil {
			return fmt.Errorf("enable %s: %w", u.name, err)
		}
		u.taken.undo = false
	} else if why := u.Drift(); why != "" {
		return errors.New(why)
	}
	err := u.of.bus.call("StartUnit", []any{new(dbus.ObjectPath)}, u.name, "replace")
	if err != nil {
		return fmt.Errorf("start %s: %w", u.name, err)
	}
	var s state
	err = eventually(startWithin, func() (bool, error) {
		var err error
		if s, err = u.of.bus.state(u.name); err != nil {
			return false, err
		}
		if s.rests() {
			return false, fmt.Errorf("start %s: systemd did not: it is %s (%s), %s", u.name, s.active, s.sub, s.how())
		}
		return s.runs() && s.active == "active", nil
	})
	if err != nil {
		return err
	}
	if err := u.of.bus.hold(u.name); err != nil {
		return ignore(err, noSuchUnit)
	}
	u.follow(s)
	return nil
}

// stopTaken ends an adopted service, and keeps it from starting with the machine.
func (u *unit) stopTaken() error {
	u.taken.undo = true
	if err := u.enable(false); err != nil {
		return fmt.Errorf("disable %s: %w", u.name, err)
	}
	return u.of.bus.clear(u.name, u.stopWithin())
}

// Restore makes the next start of an adopted service enable it as well. Otherwise a start leaves alone what an
// operator of the server decided.
func (u *unit) Restore() {
	u.changing.Lock()
	defer u.changing.Unlock()
	if u.taken != nil {
		u.taken.undo = true
	}
}

// Drift returns what an operator of the server changed of an adopted service, or "".
func (u *unit) Drift() string {
	if u.taken == nil || !u.taken.is.Enabled {
		return ""
	}
	v, err := u.of.bus.fileState(u.name)
	if err != nil || v == enabled || v == "" {
		return "" // "" means that systemd could not read the file
	}
	return fmt.Sprintf("%s is %s on the server, so it no longer starts with the machine", u.name, v)
}

// mostStop bounds the wait for the end of an adopted service, whose settings may allow any time.
const mostStop = 10 * time.Minute

// stopWithin returns how long the service may take to end by its own settings.
func (u *unit) stopWithin() time.Duration {
	var v dbus.Variant
	err := u.of.bus.callAt(objectPath(u.name), "org.freedesktop.DBus.Properties.Get", []any{&v},
		destination+".Service", "TimeoutStopUSec")
	if us, ok := v.Value().(uint64); err == nil && ok && us < uint64(mostStop.Microseconds()) {
		return max(time.Duration(us)*time.Microsecond, u.spec.StopWithin())
	}
	return mostStop
}

// link is a change that systemd made to a link of a unit file.
type link struct{ Change, File, Target string }

// enable has an adopted service start with the machine again, or no more. One that did not when it was adopted is left
// as it is.
func (u *unit) enable(on bool) error {
	if !u.taken.is.Enabled {
		return nil
	}
	is, err := u.of.Service(u.name)
	if err != nil || is.Enabled == on {
		return err
	}
	files := []string{u.name}
	if on {
		err = u.of.bus.call("EnableUnitFiles", []any{new(bool), new([]link)}, files, false, false)
	} else {
		err = u.of.bus.call("DisableUnitFiles", []any{new([]link)}, files, false)
	}
	return errors.Join(err, u.of.bus.call("Reload", nil))
}

package systemd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/godbus/dbus/v5"
)

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

package chaos

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/e2e/fleet"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// guestPrefix begins the names of servers that come and go.
const guestPrefix = "g"

// inviteGuest adds a server that a later round decommissions, with both agents.
func (w *World) inviteGuest(ctx context.Context) error {
	w.guest++
	name := guestPrefix + strconv.Itoa(w.guest)
	if err := w.addServer(ctx, name); err != nil {
		return err
	}
	for _, agent := range []string{beacon, tuner} {
		json := fmt.Sprintf(`{"install":{"agent":%q,"image":{"version":%q},"on":{"servers":[%q]}}}`, agent,
			goodVersions[0], name)
		w.publish(ctx, topology.VerbInstall, json, false)
	}
	return nil
}

func (w *World) guests() []*fleet.Server {
	return slices.DeleteFunc(w.Servers(), func(s *fleet.Server) bool { return !strings.HasPrefix(s.Name, guestPrefix) })
}

// dismissGuest asks for the end of the oldest guest, until the bus takes it.
func (w *World) dismissGuest(ctx context.Context) (leaving *fleet.Server) {
	guests := w.guests()
	if len(guests) == 0 {
		return nil
	}
	json := fmt.Sprintf(`{"decommission":{"server":%q}}`, guests[0].Name)
	for ctx.Err() == nil && !w.publish(ctx, topology.VerbDecommission, json, false) {
		sleep(ctx, time.Second)
	}
	return guests[0]
}

// left reports what is left of a server that was to go, or nil.
func (w *World) left(s *fleet.Server) error {
	if s.Joined() {
		return fmt.Errorf("%s is still there", s.Name)
	}
	pids, err := s.AgentProcesses()
	if err != nil || len(pids) > 0 {
		return fmt.Errorf("%s left the processes %v (%v)", s.Name, pids, err)
	}
	files, err := list(s.Root)
	files = slices.DeleteFunc(files, func(f string) bool { return strings.HasPrefix(f, "executor/tombstone.json") })
	if err != nil || len(files) > 0 {
		return fmt.Errorf("%s left %v (%v)", s.Name, files, err)
	}
	return nil
}

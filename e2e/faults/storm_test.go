package faults_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// herdSize is how many servers beat without an executor.
const herdSize = 60

// dialAs connects with credentials as one of the project's own programs does.
func (w *world) dialAs(name, jwt, seed string, persist bool) *bus.Conn {
	w.T.Helper()
	conn, err := bus.Dial(bus.Options{
		URL: w.URL(), Name: name, Log: zerolog.Nop(), Persist: persist,
		FirstWait: topology.ServerFirstWait, MaxBackoff: topology.ServerBackoff,
		Credentials: func() (string, []byte, error) { return jwt, []byte(seed), nil },
	})
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(conn.Close)
	return conn
}

// admin connects as a person who may invite servers.
func (w *world) admin() *bus.Conn {
	w.T.Helper()
	authority, err := trust.OpenAuthority(filepath.Join(w.DataDir(), "trust"))
	if err != nil {
		w.T.Fatal(err)
	}
	c, err := authority.Person("herd", topology.Admin, w.URL(), time.Time{})
	if err != nil {
		w.T.Fatal(err)
	}
	return w.dialAs(c.Actor, c.JWT, c.Seed, false)
}

// beatingServer enrols a server with a key of its own, and beats under its credentials until the test ends or silent is
// set. It counts the beats that it sent, or tried to send.
func (w *world) beatingServer(admin *bus.Conn, name string, silent *atomic.Bool, sent *atomic.Int64) {
	w.T.Helper()
	ctx := scenario.Within(w.T, time.Minute)
	invite := registryv1.File_garrison_registry_v1_registry_service_proto.Services().ByName("RegistryService").
		Methods().ByName("InviteServer")
	r, err := bus.Call[*registryv1.InviteServerResponse](ctx, admin, ledger.Registry, invite,
		&registryv1.InviteServerRequest{Name: name})
	if err != nil {
		w.T.Fatal(err)
	}
	token, err := trust.ParseToken(r.GetToken())
	if err != nil {
		w.T.Fatal(err)
	}
	public, seed, err := trust.NewUserKey()
	if err != nil {
		w.T.Fatal(err)
	}
	address := topology.ServerAddress{Cell: token.Cell, Server: token.ServerID}
	guest := w.dialAs(token.ServerID, token.JWT, token.Seed, false)
	answer, err := bus.Ask[*registryv1.EnrolResponse](ctx, guest, topology.EnrolSubject(address),
		&registryv1.EnrolRequest{
			ServerId: token.ServerID, Secret: token.Secret, PublicKey: public,
			Sysinfo: &serverv1.Sysinfo{Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"}},
		})
	guest.Close()
	if err != nil {
		w.T.Fatalf("enrol %s: %v", name, err)
	}
	conn := w.dialAs(token.ServerID, answer.GetUserJwt(), string(seed), true)
	go beats(w.T.Context(), conn, address, w.Beat, silent, sent)
}

// starved has the ids of the servers that this process, on a busy machine, let fall silent.
var starved sync.Map

// beats sends a beat at an interval until ctx is done or silent is set.
func beats(
	ctx context.Context, conn *bus.Conn, a topology.ServerAddress, every time.Duration, silent *atomic.Bool,
	sent *atomic.Int64,
) {
	data, _ := proto.Marshal(&reportv1.Beat{ServerId: a.Server, BootId: "boot", SessionId: a.Server}) // it always fits
	tick := time.NewTicker(every)
	defer tick.Stop()
	for last := time.Now(); ; {
		if !silent.Load() {
			_ = conn.Publish(topology.BeatSubject(a), data) // lost while the bus is away
			if time.Since(last) > 2*every {
				starved.Store(a.Server, true)
			}
			last = time.Now()
			sent.Add(1)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// countedOffline returns how many facts call a server offline that this process had beat.
func (w *world) countedOffline() (n int) {
	w.T.Helper()
	for _, f := range w.Facts() {
		_, silent := starved.Load(f.Key)
		if _, ok := f.Body.(*serverv1.Offline); ok && !silent {
			n++
		}
	}
	return n
}

// beating waits until so many servers are online and none is late.
func (w *world) beating(want int) {
	w.T.Helper()
	w.Eventually(fmt.Sprintf("%d servers beat", want), func() error {
		if n := w.listed("online"); n != want {
			return fmt.Errorf("%d are online and %d late", n, w.listed("late"))
		}
		return nil
	})
}

// listed returns how many servers are listed with a presence.
func (w *world) listed(presence string) int {
	return strings.Count(w.OK("server", "list", "--presence", presence, "--no-headers", "--columns", "name"), "herd-")
}

// Servers that beat all the time are never called offline because the bus or the registry was away.
func TestNoServerIsCalledOfflineBecauseTheBusOrTheRegistryWasAway(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{Apart: true})}
	admin := w.admin()
	var one, rest atomic.Bool
	var sent atomic.Int64
	each := func(beats int64) { // waits until the servers tried to beat so often
		t.Helper()
		end := sent.Load() + beats*herdSize
		w.Eventually(fmt.Sprintf("each server tried to beat %d times", beats), func() error {
			if left := end - sent.Load(); left > 0 {
				return fmt.Errorf("%d beats are left", left)
			}
			return nil
		})
	}
	for n := range herdSize {
		silent := &rest
		if n == 0 {
			silent = &one
		}
		w.beatingServer(admin, fmt.Sprintf("herd-%d", n), silent, &sent)
	}
	w.beating(herdSize)

	scenario.Must(t, w.Garrisond.Kill())
	each(4) // longer than a server may be silent
	scenario.Must(t, errors.Join(w.StartBus(t.Context()), w.WaitReady(t.Context())))
	w.beating(herdSize)
	if n := w.countedOffline(); n > 0 {
		t.Errorf("%d facts call servers offline after the bus was killed", n)
	}

	registry := w.Services[topology.UserRegistry]
	scenario.Must(t, registry.Pause())
	each(5)
	scenario.Must(t, errors.Join(registry.Resume(), w.WaitReady(t.Context())))
	w.beating(herdSize)
	if n := w.countedOffline(); n > 0 {
		t.Errorf("%d facts call servers offline after the registry stood still", n)
	}

	one.Store(true)
	w.Eventually("the one that fell silent is offline", func() error {
		if n := w.listed("offline"); n != 1 {
			return fmt.Errorf("%d are offline", n)
		}
		return nil
	})
	if n := w.countedOffline(); n > 1 { // 0 when this process had let it fall silent before
		t.Errorf("%d facts call servers offline, want 1", n)
	}
}

package servers_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
)

// joined is what garrison server list prints of a server that joined with a pooled token.
type joined struct {
	ID, Name, Environment, Token, Life, Presence, Standing string
	Labels                                                 map[string]string
}

func (w *world) joinedWith(token string) (out []joined) {
	w.T.Helper()
	text := w.OK("server", "list", "--token", token, "-o", "json")
	var all struct{ Servers []joined }
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		if err := json.Unmarshal([]byte(text), &all.Servers); err != nil {
			w.T.Fatalf("%v: %s", err, text)
		}
	}
	return all.Servers
}

func TestFiveServersJoinWithOneTokenAtOnceAndASixthDoesNot(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{})}
	w.OK("env", "create", "prod")
	token := w.OK("token", "create", "rack-a", "--uses", "5", "--env", "prod", "--label", "rack=a",
		"--from-address", "127.0.0.1")
	var wait sync.WaitGroup
	errs := make([]error, 5)
	servers := make([]*rig.Server, len(errs))
	var one sync.Mutex
	for n := range errs {
		wait.Go(func() {
			one.Lock() // the fleet lists its servers
			s, err := w.JoinWith(t.Context(), fmt.Sprint("host-", n), token)
			one.Unlock()
			if servers[n], errs[n] = s, err; err == nil {
				errs[n] = s.Executor.Start()
			}
		})
	}
	wait.Wait()
	for n, err := range errs {
		if err != nil {
			t.Fatalf("server %d: %v", n, err)
		}
	}
	w.Eventually("five servers are online", func() error {
		online := 0
		for _, s := range w.joinedWith("rack-a") {
			if s.Presence == "online" {
				online++
			}
		}
		if online != len(errs) {
			return fmt.Errorf("%d are", online)
		}
		return nil
	})
	names := map[string]bool{}
	for _, s := range w.joinedWith("rack-a") {
		names[s.Name] = true
		if s.Environment != "prod" || s.Labels["rack"] != "a" || s.Token != "rack-a" {
			t.Errorf("server %s: %+v", s.Name, s)
		}
	}
	if len(names) != len(errs) {
		t.Errorf("the names are %v, want %d", names, len(errs))
	}
	// Joining again uses nothing up, not even with a used up token.
	if err := servers[0].Join(t.Context(), token); err != nil {
		t.Errorf("join again: %v", err)
	}
	_, err := w.JoinWith(t.Context(), "host-6", token)
	if err == nil || !strings.Contains(err.Error(), "TOKEN_USED_UP") {
		t.Errorf("the sixth: %v", err)
	}
	w.revokesWithServers()
}

// revokesWithServers revokes a token, also of the servers that joined with it.
func (w *world) revokesWithServers() {
	w.T.Helper()
	out := w.OK("token", "create", "spare", "--uses", "9")
	w.OK("token", "revoke", "spare", "-m", "leaked", "--yes")
	w.Eventually("the bus refuses a revoked token", func() error {
		_, err := w.JoinWith(w.T.Context(), "host-7", out)
		if err == nil {
			w.T.Fatal("a server joined with a revoked token")
		}
		if !strings.Contains(err.Error(), "LOGIN_REFUSED") {
			return err
		}
		return nil
	})
	w.OK("token", "revoke", "rack-a", "--quarantine", "--yes")
	for _, s := range w.joinedWith("rack-a") {
		if s.Standing != "quarantined" {
			w.T.Errorf("server %s is %s", s.Name, s.Standing)
		}
	}
	w.Fails(8, "EXISTS", "token", "create", "rack-a", "--uses", "1")
}

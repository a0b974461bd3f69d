package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
)

// cutting is a version of beacon that works, and during which nothing passes between its server and the bus.
const cutting = "3.3.0"

// The limits of a strike: until the version runs, and until it is gone again. Its image lets the bus be away for 3 s.
const cutBegins, cutEnds = 20 * time.Second, time.Minute

// cutOff brings that version to a server, and cuts the server off while the version runs.
func cutOff(ctx context.Context, w *World, s Strike) (string, error) {
	server := choose(s.Pick, w.staying())
	intent := fmt.Sprintf(`{"install":{"agent":%q,"image":{"version":%q},"also_upgrade":true,"on":{"servers":[%q]}}}`,
		beacon, cutting, server.Name)
	if !w.publish(ctx, intent, false) {
		return "skipped: the bus takes no intent", nil
	}
	gate, began := w.gates[server.Name], time.Now()
	defer gate.set(false)
	for cut := time.Duration(0); ctx.Err() == nil; {
		runs, err := runsVersion(server, cutting)
		if err != nil {
			return "", err
		}
		gate.set(runs)
		switch since := time.Since(began); {
		case runs && since > cutBegins+cutEnds:
			return "", fmt.Errorf("%s still runs the version that cuts it off, after %v", server.Name, since)
		case runs && cut == 0:
			cut = since
		case !runs && cut > 0:
			away := (since - cut).Round(time.Millisecond)
			return fmt.Sprintf("beacon %s cut %s off for %v", cutting, server.Name, away), nil
		case !runs && since > cutBegins:
			return "skipped: beacon " + cutting + " never began on " + server.Name, nil
		}
		_ = rig.Sleep(ctx, 10*time.Millisecond)
	}
	return "", ctx.Err()
}

// runsVersion reports whether a process of a version of beacon runs on a server.
func runsVersion(s *rig.Server, version string) (bool, error) {
	pids, err := s.AgentProcesses()
	return slices.ContainsFunc(pids, func(pid int) bool {
		agent, is, ok := commandLine(pid)
		return ok && agent == beacon && is == version
	}), err
}

// gate passes on what a server and the bus send to each other, and nothing while it is shut.
type gate struct {
	listener net.Listener
	bus      string

	mu   sync.Mutex
	shut bool
	both map[net.Conn]net.Conn // each connection of the server, with that to the bus
}

// throughGate makes an executor that has joined connect to the bus through a gate.
func throughGate(s *rig.Server) (*gate, error) {
	file := filepath.Join(s.Root, "executor", "identity.json")
	identity := map[string]any{}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &identity); err != nil {
		return nil, err
	}
	at, err := url.Parse(fmt.Sprint(identity["url"]))
	if err != nil {
		return nil, err
	}
	g := &gate{bus: at.Host, both: map[net.Conn]net.Conn{}}
	if g.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	at.Host = g.listener.Addr().String()
	identity["url"] = at.String()
	if data, err = json.Marshal(identity); err != nil {
		return nil, err
	}
	go g.serve()
	return g, os.WriteFile(file, data, 0o600)
}

// serve takes connections until the listener is closed.
func (g *gate) serve() {
	for {
		c, err := g.listener.Accept()
		if err != nil {
			return
		}
		go g.pass(c)
	}
}

// pass connects a server with the bus, unless the gate is shut.
func (g *gate) pass(c net.Conn) {
	defer func() { _ = c.Close() }()
	bus, err := net.Dial("tcp", g.bus)
	if err != nil {
		return
	}
	defer func() { _ = bus.Close() }()
	g.mu.Lock()
	shut := g.shut
	g.both[c] = bus
	g.mu.Unlock()
	if !shut {
		go func() { _, _ = io.Copy(bus, c); _ = bus.Close() }()
		_, _ = io.Copy(c, bus)
	}
	g.mu.Lock()
	delete(g.both, c)
	g.mu.Unlock()
}

// set shuts a gate, which ends its connections, or opens it.
func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut = shut; shut {
		for c, bus := range g.both {
			_, _ = c.Close(), bus.Close()
		}
	}
}

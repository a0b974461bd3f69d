package executor_test

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
	"github.com/garrison-fleet/garrison/services/executor"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/status"
)

// box is one server, on a bus with the real accounts, whose executor is a process that is
// started again whenever it ends, as a service manager does.
type box struct {
	t         *testing.T
	at        executor.Server
	root      layout.Root
	bootstrap string // the program that is started, version 1.0.0
	url       string // where the executor connects: a way that can be cut
	way       *way
	log       string
	signer    *trust.Signer

	dispatcher, catalog, registry, reader *bus.Conn

	ended ended

	mu     sync.Mutex
	beats  string // the version that the last beat said
	images map[string]*imagev1.Manifest
	doc    *desiredv1.Document
	unit   *unit
	main   func() int // the process that is kept up now
}

func newBox(t *testing.T) *box {
	t.Helper()
	return newBoxIn(t, filepath.Join(t.TempDir(), "root"))
}

// newBoxIn is a box with another place for its root.
func newBoxIn(t *testing.T, root string) *box {
	t.Helper()
	dir := t.TempDir()
	b := newServer(t, root, filepath.Join(dir, "bootstrap", "executor"), filepath.Join(dir, "log"))
	b.main = func() int { return b.unit.pid() }
	b.way = newWay(t, strings.TrimPrefix(b.url, "nats://"))
	b.url = "nats://" + b.way.listener.Addr().String()
	program, err := selfProgram()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(filepath.Dir(b.bootstrap), 0o755), writeProgram(b.bootstrap, program),
		os.WriteFile(filepath.Join(filepath.Dir(b.bootstrap), "trait.json"), []byte(`{"Version":"1.0.0"}`),
			0o600)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.stop()
		b.endAgent()
	})
	return b
}

// writeProgram writes a program that can be started at once. A process that another test forks while the file is open
// for writing would keep it busy.
func writeProgram(path string, data []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, data, 0o755)
}

// newServer makes a server as a join leaves it, on a bus of its own. Who makes it says how
// its executor is kept up.
func newServer(t *testing.T, root, bootstrap, log string) *box {
	t.Helper()
	g := bustest.StartGuarded(t)
	signer, err := trust.OpenSigner(g.Authority.SignerDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &box{
		t: t, at: executor.Server{
			Cell: "main", Server: ident.New(),
		}, root: layout.Root(root), bootstrap: bootstrap, url: g.URL, log: log, signer: signer,
		dispatcher: g.Service(t, topology.UserDispatcher), catalog: g.Service(t, topology.UserCatalog),
		registry: g.Service(t, topology.UserRegistry), reader: g.Service(t, topology.UserProvision),
		ended:  ended{map[string]uint64{}, map[string]*reportv1.TaskReport{}, map[string]bool{}},
		images: map[string]*imagev1.Manifest{},
	}
	b.doc = &desiredv1.Document{ServerId: b.at.Server, Cell: b.at.Cell}
	bustest.ServeChunks(t, b.catalog)
	t.Cleanup(func() {
		_ = imagedir.RemoveTree(string(b.root.Images()))
		if data, err := os.ReadFile(b.log); err == nil && t.Failed() {
			t.Logf("the executors said:\n%s", data[max(0, len(data)-20_000):])
		}
	})
	b.join()
	stop, err := b.registry.Subscribe(topology.BeatSubject(b.at), func(m bus.Message) {
		beat := &reportv1.Beat{}
		if bus.Unmarshal(m, beat) == nil {
			b.mu.Lock()
			b.beats = beat.GetExecutorVersion()
			b.mu.Unlock()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return b
}

// join writes what an enrolment leaves.
func (b *box) join() {
	b.t.Helper()
	key, err := identity.OpenKey(b.root)
	if err != nil {
		b.t.Fatal(err)
	}
	token, err := b.signer.Server(key.Public, b.at.Server, b.at.Cell, time.Time{})
	if err != nil {
		b.t.Fatal(err)
	}
	is := identity.Identity{
		ServerID: b.at.Server, Cell: b.at.Cell, URL: b.url, PublicKey: key.Public, JWT: token,
		Ownership: identity.Manual, TombstoneKey: b.signer.TombstoneKey(),
	}
	if err := is.Write(b.root); err != nil {
		b.t.Fatal(err)
	}
}

func (b *box) status() status.Status {
	s, err := status.Read(string(b.root))
	if err != nil {
		b.t.Log(err)
	}
	return s
}

func (b *box) agent(name string) status.Agent {
	for _, a := range b.status().Agents {
		if a.Agent == name {
			return a
		}
	}
	return status.Agent{}
}

func (b *box) endAgent() {
	records, _ := filepath.Glob(filepath.Join(b.root.Run("sleeper"), "process-*.json"))
	for _, path := range records {
		var r struct{ Pid int }
		data, err := os.ReadFile(path)
		if err == nil && json.Unmarshal(data, &r) == nil && r.Pid > 1 {
			if p, err := os.FindProcess(r.Pid); err == nil {
				_ = p.Kill()
			}
		}
	}
}

func (b *box) forgetBeat() {
	b.mu.Lock()
	b.beats = ""
	b.mu.Unlock()
}

func (b *box) beat() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.beats
}

// install brings the agent that must not be touched, and returns its process.
func (b *box) install() (pid int) {
	b.t.Helper()
	end, err := b.waitEnd(b.want(b.agentImage()))
	if err != nil || end.GetState() != taskv1.State_STATE_SUCCEEDED {
		b.t.Fatal(end, err)
	}
	var r struct{ Pid int }
	records, _ := filepath.Glob(filepath.Join(b.root.Run("sleeper"), "process-*.json"))
	if len(records) != 1 {
		b.t.Fatalf("records %v", records)
	}
	data, err := os.ReadFile(records[0])
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil || r.Pid == 0 {
		b.t.Fatalf("the agent's process: %s %v", data, err)
	}
	return r.Pid
}

// way is a proxy to the bus that can be cut: connections over it break, and new ones fail.
type way struct {
	listener net.Listener
	to       string

	mu   sync.Mutex
	cut  bool
	open map[net.Conn]bool
}

func newWay(t *testing.T, to string) *way {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &way{listener: l, to: to, open: map[net.Conn]bool{}}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go w.carry(c)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		w.set(true)
	})
	return w
}

func (w *way) carry(c net.Conn) {
	defer func() { _ = c.Close() }()
	far, err := net.Dial("tcp", w.to)
	if err != nil {
		return
	}
	defer func() { _ = far.Close() }()
	w.mu.Lock()
	if w.cut {
		w.mu.Unlock()
		return
	}
	w.open[c] = true
	w.mu.Unlock()
	go func() {
		_, _ = io.Copy(far, c)
		_ = far.Close()
	}()
	_, _ = io.Copy(c, far)
	w.mu.Lock()
	delete(w.open, c)
	w.mu.Unlock()
}

// set cuts the way, or lets it be whole again.
func (w *way) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	if cut {
		for c := range w.open {
			_ = c.Close()
		}
	}
}

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/inherit"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
	"github.com/garrison-fleet/garrison/services/executor/internal/systemd"
	"github.com/garrison-fleet/garrison/services/executor/simulation/crash/imagetest"
)

// agentBinary is the tiny agent, built once.
var agentBinary []byte

// childVariable makes a re-executed test binary an executor.
const childVariable = "GARRISON_ENGINE_TEST_CHILD"

func TestMain(m *testing.M) {
	if spec := os.Getenv(childVariable); spec != "" {
		if err := beExecutor(spec); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	inherit.Process()
	os.Exit(withAgent(m.Run))
}

// agentVariable names the agent's program where it cannot be built.
const agentVariable = "GARRISON_TEST_AGENT"

func withAgent(run func() int) (code int) {
	var err error
	if built := os.Getenv(agentVariable); built != "" {
		if agentBinary, err = os.ReadFile(built); err != nil {
			panic(err)
		}
		return run()
	}
	dir, err := os.MkdirTemp("", "agent-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", filepath.Join(dir, "agent"), "./testdata/agent")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		panic(string(out))
	}
	if agentBinary, err = os.ReadFile(filepath.Join(dir, "agent")); err != nil {
		panic(err)
	}
	return run()
}

// child is the configuration of a re-executed test binary.
type child struct {
	Root, Shelf layout.Root
	Document    string // a file, or empty for a bus that is away
	KillAt      string // the point at which it kills itself
	Trace       string // a file to which the points are appended that it passes; it is there when it begins
	Bus         *login // where its chunks come from, or nil for the shelf
	StopAt      string // the point at which it stops itself, until SIGCONT
	CutAt       string // the point from which its Fetcher waits for a bus that is away
	HogAt       string // the point at which another program takes all the room on its disk
}

// start starts an executor in a process of its own.
func (c child) start(t *testing.T) *exec.Cmd {
	t.Helper()
	spec, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+string(spec))
	cmd.Stderr = testWriter{t}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", p)
	return len(p), nil
}

func beExecutor(spec string) error {
	var c child
	if err := json.Unmarshal([]byte(spec), &c); err != nil {
		return err
	}
	if err := os.MkdirAll(c.Root.Home(), 0o700); err != nil {
		return err
	}
	j, err := journal.Open(c.Root.Journal())
	if err != nil {
		return err
	}
	defer func() { _ = j.Close() }()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	trace, err := c.openTrace()
	if err != nil {
		return err
	}
	var cut atomic.Bool
	cfg := testConfig(c.Root, c.Shelf, j, zerolog.New(os.Stderr).Level(zerolog.ErrorLevel), func(point string) {
		fmt.Fprintln(trace, point)
		switch point {
		case c.KillAt:
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		case c.StopAt:
			_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		case c.CutAt:
			cut.Store(true)
		case c.HogAt:
			fillDisk(hogPath(c.Root))
		}
	})
	cfg.Fetcher = cuttable{cfg.Fetcher, &cut}
	cfg.Keep = crashKeep
	if c.Bus != nil {
		conn, err := c.Bus.dial()
		if err != nil {
			return err
		}
		defer conn.Close()
		cfg.Fetcher = newChunkwise(conn, c.Root, cfg.FailPoint)
	}
	e := New(cfg)
	if c.Document != "" {
		data, err := os.ReadFile(c.Document)
		if err != nil {
			return err
		}
		d := &desiredv1.Document{}
		if err := proto.Unmarshal(data, d); err != nil {
			return err
		}
		e.Offer(d)
	}
	return e.Run(ctx)
}

func (c child) openTrace() (io.Writer, error) {
	if c.Trace == "" {
		return io.Discard, nil
	}
	fmt.Println("go")
	return os.OpenFile(c.Trace, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
}

// crashKeep is what executors keep that are killed.
var crashKeep = Keep{Versions: 1, Bytes: 1 << 30}

var testPolicy = supervise.Policy{
	First: 20 * time.Millisecond, Longest: time.Minute, Steady: time.Minute, CrashLoop: 3, OutputBytes: 64 << 10,
}

// supervisorVariable set to systemd has every test use it. The machine must be run by it: make systemd-test.
const supervisorVariable = "GARRISON_SUPERVISOR"

func bySystemd() bool { return os.Getenv(supervisorVariable) == "systemd" }

func testSupervisor(root layout.Root, p supervise.Policy) supervise.Supervisor {
	if !bySystemd() {
		return supervise.NewDirect(root, p)
	}
	return newSystemd(root, p)
}

var (
	systemdsLock sync.Mutex
	// one connection to the bus for each root and policy: there are not many
	systemds = map[systemdOf]*systemd.Supervisor{}
)

type systemdOf struct {
	layout.Root
	supervise.Policy
}

// closeSystemd closes the connections that a root's tests made: the bus has 256 for a user.
func closeSystemd(root layout.Root) error {
	systemdsLock.Lock()
	defer systemdsLock.Unlock()
	var errs []error
	for of, s := range systemds {
		if of.Root == root {
			errs = append(errs, s.Close())
			delete(systemds, of)
		}
	}
	return errors.Join(errs...)
}

func newSystemd(root layout.Root, p supervise.Policy) *systemd.Supervisor {
	systemdsLock.Lock()
	defer systemdsLock.Unlock()
	key := systemdOf{root, p}
	s := systemds[key]
	if s == nil {
		shim, err := os.Executable()
		if err == nil {
			s, err = systemd.New(root, p, shim)
		}
		if err != nil {
			panic(err)
		}
		systemds[key] = s
	}
	return s
}

func testConfig(root, shelf layout.Root, j *journal.Journal, log zerolog.Logger, failPoint func(string)) Config {
	return Config{
		Root: root, ServerID: serverID, BootID: "boot", Journal: j, Fetcher: imagetest.Shelf{From: shelf, To: root},
		Sysinfo:    func(context.Context) *serverv1.Sysinfo { return testMachine() },
		CheckEvery: time.Second, Supervisor: testSupervisor(root, testPolicy), Log: log, FailPoint: failPoint,
	}
}

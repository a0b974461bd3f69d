package executor_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/debug"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/services/executor"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
	"github.com/garrison-fleet/garrison/services/executor/internal/status"
	"github.com/garrison-fleet/garrison/services/executor/simulation/crash/imagetest"
)

var here = executor.Server{Cell: "main", Server: "0197b5a0-0000-7000-8000-000000000001"}

// site is a bus, with a dispatcher's and a catalog's hand on it.
type site struct {
	t    *testing.T
	b    *bustest.Bus
	conn *bus.Conn
	root string

	mu   sync.Mutex
	ends map[string]taskv1.State
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, b: bustest.Start(t), root: t.TempDir(), ends: map[string]taskv1.State{}}
	s.conn = s.b.Dial(t, "dispatcher")
	bustest.ServeChunks(t, s.b.Dial(t, "image-catalog"))
	t.Cleanup(func() { _ = imagedir.RemoveTree(filepath.Join(s.root, "images")) })
	stop, err := s.conn.Subscribe(topology.ReportSubject(here, topology.ReportTask), func(m bus.Message) {
		r := &reportv1.Report{}
		if bus.Unmarshal(m, r) == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.ends[r.GetTask().GetTaskId()] = r.GetTask().GetState()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return s
}

func (s *site) store(subject string, data []byte) {
	s.t.Helper()
	if _, err := s.conn.PublishDurable(context.Background(), bus.Durable{Subject: subject, Data: data}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) desire(d *desiredv1.Document) {
	s.t.Helper()
	d.ServerId, d.Cell = here.Server, here.Cell
	data, err := proto.Marshal(d)
	if err != nil {
		s.t.Fatal(err)
	}
	s.store(topology.DesiredSubject(here), data)
}

// image stores an image of files on the bus.
func (s *site) image(version string) *imagev1.Manifest {
	s.t.Helper()
	i := imagetest.New(s.t, "gz-tools", version, nil, imagetest.Regular("tool", 0o755, []byte(version)))
	i.Manifest.Kind = agentv1.Kind_KIND_FILES
	give(s.t, s.conn, i)
	return i.Manifest
}

func (s *site) reported(task string) taskv1.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ends[task]
}

func (s *site) executor() *executor.Executor {
	return executor.New(executor.Config{
		Root: s.root, InProcess: s.b, Anonymous: &here, BeatInterval: 50 * time.Millisecond,
		Log: zerolog.New(zerolog.NewTestWriter(s.t)).Level(zerolog.WarnLevel),
	})
}

func TestAnImageOnTheBusComesToTheServerAndIsReported(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	bustest.Go(t, s.executor().Run)
	m := s.image("1.0.0")
	s.desire(&desiredv1.Document{Generation: 1, Entries: []*desiredv1.Entry{{
		Agent: "gz-tools", InstanceId: "i", Generation: 1, Image: m, TaskId: "t", Verb: taskv1.Verb_VERB_INSTALL,
	}}})
	polltest.Eventually(t, "the task's end", func() bool { return s.reported("t") == taskv1.State_STATE_SUCCEEDED })
	if tool, err := os.ReadFile(filepath.Join(s.root, "agents/gz-tools/current/tool")); string(tool) != "1.0.0" {
		t.Errorf("the tool is %q, %v", tool, err)
	}
	polltest.Eventually(t, "the status says so", func() bool {
		is, err := status.Read(s.root)
		return err == nil && is.Healthy(time.Now()) == nil && is.Applied == 1 && len(is.Agents) == 1 &&
			is.Agents[0].Health == "good"
	})
}

func TestAnExecutorThatWasStoppedSaysSo(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.executor().Run(ctx) }()
	polltest.Eventually(t, "it runs", func() bool {
		is, err := status.Read(s.root)
		return err == nil && is.Connected
	})
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	is, err := status.Read(s.root)
	if err != nil || is.State != status.Stopped || is.Connected || is.Healthy(time.Now()) == nil {
		t.Errorf("status %+v, %v", is, err)
	}
	var text strings.Builder
	if err := is.Print(&text, time.Now()); err != nil || !strings.Contains(text.String(), "executor  stopped") ||
		strings.Contains(text.String(), "bus       connected") {
		t.Errorf("it prints %v:\n%s", err, text.String())
	}
}

func TestARootWithoutAnIdentityDoesNotRun(t *testing.T) {
	t.Parallel()
	err := executor.New(executor.Config{Root: t.TempDir(), Log: zerolog.Nop()}).Run(context.Background())
	if !fault.Is(err, fault.NotFound) {
		t.Errorf("got %v", err)
	}
}

func TestTwoExecutorsInOneRootAreAConflict(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	bustest.Go(t, s.executor().Run)
	polltest.Eventually(t, "the first runs", func() bool { _, err := status.Read(s.root); return err == nil })
	if err := s.executor().Run(context.Background()); !fault.Is(err, fault.Conflict) {
		t.Errorf("got %v", err)
	}
}

// The debug socket is off by default, and shows the state of an executor that runs.
func TestTheStateIsReadableOverTheDebugSocketOnly(t *testing.T) {
	t.Parallel()
	h := newHost(t, bustest.StartGuarded(t), filepath.Join(t.TempDir(), "root"), identity.Manual)
	c := h.config()
	c.DebugSocket = filepath.Join(t.TempDir(), "debug.sock")
	_, stop := h.run(c)
	h.state(status.Running, "")
	var state struct {
		Status    status.Status  `json:"status"`
		Lifecycle map[string]any `json:"lifecycle"`
	}
	data, err := debug.Get(t.Context(), c.DebugSocket, "/state")
	if err := errors.Join(err, json.Unmarshal(data, &state)); err != nil {
		t.Fatal(err)
	}
	if state.Status.State != status.Running || state.Lifecycle["action"] != "work" {
		t.Errorf("the state is %s", data)
	}
	if info, err := os.Stat(c.DebugSocket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	stop()
	if _, err := os.Stat(c.DebugSocket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket after the stop: %v", err)
	}
}

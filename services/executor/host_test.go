package executor_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/services/executor"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/status"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
	"github.com/garrison-fleet/garrison/services/executor/simulation/crash/imagetest"
)

// host is a server that joined a bus with the real accounts, and everybody's hand on it.
type host struct {
	t      *testing.T
	g      *bustest.Guarded
	signer *trust.Signer
	root   layout.Root
	who    identity.Identity
	says   *bus.Conn // the dispatcher
	gives  *bus.Conn // the catalog
	newest uint64
	quit   func() // asks the executor that was run last to stop, and waits for nothing
}

// newHost makes a server as a join leaves it.
func newHost(t *testing.T, g *bustest.Guarded, root, ownership string) *host {
	t.Helper()
	signer, err := trust.OpenSigner(g.Authority.SignerDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &host{
		t: t, g: g, signer: signer, root: layout.Root(root),
		says: g.Service(t, topology.UserDispatcher), gives: g.Service(t, topology.UserCatalog),
		who: identity.Identity{
			ServerID:     ident.New(),
			Cell:         "main",
			URL:          g.URL,
			Ownership:    ownership,
			TombstoneKey: signer.TombstoneKey(),
		},
	}
	t.Cleanup(func() { _ = imagedir.RemoveTree(h.root.Images()) })
	g.ServeChunks()
	key, err := identity.OpenKey(h.root)
	if err != nil {
		t.Fatal(err)
	}
	h.who.PublicKey = key.Public
	if h.who.JWT, err = signer.Server(key.Public, h.who.ServerID, "main", time.Time{}); err != nil {
		t.Fatal(err)
	}
	h.keep()
	return h
}

// keep writes the identity.
func (h *host) keep() {
	h.t.Helper()
	if err := h.who.Write(h.root); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) config() executor.Config {
	return executor.Config{
		Root: string(h.root), BeatInterval: 50 * time.Millisecond, PollInterval: 200 * time.Millisecond,
		Log: zerolog.New(zerolog.NewTestWriter(h.t)).Level(zerolog.ErrorLevel),
	}
}

// run runs the executor until the test ends or stop is called; ended receives its error.
func (h *host) run(c executor.Config) (ended chan error, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended = make(chan error, 1)
	done := make(chan struct{})
	go func() {
		ended <- executor.New(c).Run(ctx)
		close(done)
	}()
	h.quit, stop = cancel, func() { cancel(); <-done }
	h.t.Cleanup(stop)
	return ended, stop
}

// document returns the server a document, newer than all before.
func (h *host) document(d *desiredv1.Document) {
	h.t.Helper()
	h.newest++
	d.ServerId, d.Cell, d.Generation = h.who.ServerID, h.who.Cell, h.newest
	data, err := proto.Marshal(d)
	if err != nil {
		h.t.Fatal(err)
	}
	h.store(h.says, topology.DesiredSubject(h.who.Address()), data)
}

func (h *host) store(by *bus.Conn, subject string, data []byte) {
	h.t.Helper()
	if _, err := by.PublishDurable(context.Background(), bus.Durable{Subject: subject, Data: data}); err != nil {
		h.t.Fatal(err)
	}
}

// dead returns the server a document that says that it is dead, with a tombstone.
func (h *host) dead(t *serverv1.Tombstone) {
	h.t.Helper()
	h.document(&desiredv1.Document{Life: serverv1.Life_LIFE_DEAD, Tombstone: t})
}

// proof signs a tombstone of a server.
func (h *host) proof(server string) *serverv1.Tombstone {
	h.t.Helper()
	t, err := h.signer.Tombstone(server, "main", time.Now())
	if err != nil {
		h.t.Fatal(err)
	}
	return t
}

// daemon installs an agent that runs for ever, and returns its process.
func (h *host) daemon() (pid int) {
	h.t.Helper()
	return h.daemonOf("1.0.0")
}

// daemonOf installs a version of that agent, or upgrades it to that.
func (h *host) daemonOf(version string) (pid int) {
	h.t.Helper()
	h.upgrade(version, &imagev1.Run{Command: "run"})
	h.eventually(version+" of the agent runs", func() bool {
		a := h.agent()
		pid = int(a.Pid)
		_, err := os.Lstat(h.root.Changing(a.Agent)) // until the change has ended
		return pid > 0 && a.Version == version && err != nil
	})
	return pid
}

// give stores the chunks of an image on the bus, unless it has them: another test may have given them, and a try of
// this one whose answer was late.
func give(t *testing.T, by *bus.Conn, i imagetest.Image) {
	t.Helper()
	for n, c := range i.Chunks {
		_, err := by.PublishDurable(context.Background(),
			bus.Durable{Subject: topology.BlobSubject(i.Manifest.Blob.Digest, n), Data: c, Once: true})
		if err != nil && !fault.Is(err, fault.Conflict) {
			t.Fatal(err)
		}
	}
}

// upgrade asks for a version of the agent, and does not wait for it.
func (h *host) upgrade(version string, run *imagev1.Run) {
	h.t.Helper()
	i := imagetest.New(h.t, "gz-tools", version, run,
		imagetest.Regular("run", 0o755, []byte("#!/bin/sh\n# "+version+"\nwhile :; do sleep 1; done\n")))
	i.Manifest.Kind = agentv1.Kind_KIND_DAEMON
	give(h.t, h.gives, i)
	h.document(&desiredv1.Document{Life: serverv1.Life_LIFE_ALIVE, Entries: []*desiredv1.Entry{{
		Agent: "gz-tools", InstanceId: "i", Generation: 1, Image: i.Manifest, TaskId: ident.New(),
		Verb: taskv1.Verb_VERB_INSTALL,
	}}})
}

// pid is the agent's process as the status tells it; 0 when it does not run.
func (h *host) pid() int { return int(h.agent().Pid) }

// agent is the agent as one reading of the status tells it; nothing when it is not well.
func (h *host) agent() status.Agent {
	s, err := status.Read(string(h.root))
	if err != nil || len(s.Agents) != 1 || s.Agents[0].Health != "good" {
		return status.Agent{}
	}
	return s.Agents[0]
}

func (h *host) eventually(what string, done func() bool) {
	h.t.Helper()
	polltest.Eventually(h.t, what, done)
}

// state waits until the executor tells that it is in a state, and why.
func (h *host) state(state, code string) status.Status {
	h.t.Helper()
	var s status.Status
	defer func() {
		if h.t.Failed() {
			h.t.Logf("the status is %+v", s)
		}
	}()
	h.eventually("the executor is "+state+" "+code, func() bool {
		var err error
		s, err = status.Read(string(h.root))
		return err == nil && s.State == state && s.Code == code && time.Since(s.At) < 5*time.Second
	})
	return s
}

// receipts returns the reports about the executor's own removal that the bus has stored.
func (h *host) receipts() (out []*reportv1.ReceiptReport) {
	h.t.Helper()
	reader := h.g.Service(h.t, topology.UserProvision)
	msgs, err := reader.DirectGetFrom(context.Background(), topology.Reports,
		topology.ReportSubject(h.who.Address(), topology.ReportReceipt), 1, 64)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, m := range msgs {
		r := &reportv1.Report{}
		if err := bus.Unmarshal(m, r); err != nil {
			h.t.Fatal(err)
		}
		if r.GetReceipt().GetAgent() == "" {
			out = append(out, r.GetReceipt())
		}
	}
	return out
}

// oneReceipt fails unless there is a receipt, and no other one. It may be stored twice: a receipt whose
// acknowledgement was lost is sent again.
func (h *host) oneReceipt() {
	h.t.Helper()
	r := h.receipts()
	if len(r) == 0 {
		h.t.Error("no receipt")
	}
	for _, again := range r {
		if !proto.Equal(again, r[0]) {
			h.t.Errorf("receipts %v differ", r)
		}
	}
}

// tree lists everything under a directory: names, modes, sizes and links.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil {
			info, err = d.Info()
		}
		if path != dir && errors.Is(err, fs.ErrNotExist) {
			return nil // an executor that runs replaced it
		}
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		if strings.HasSuffix(rel, supervise.OutputMarks("/run/output.log")) {
			return nil // written whenever the output of an agent that runs grew
		}
		size, target := int64(0), ""
		if info.Mode().IsRegular() {
			size = info.Size()
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			target, _ = os.Readlink(path)
		}
		_, err = fmt.Fprintf(&out, "%s %s %d %s\n", rel, info.Mode(), size, target)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

package attack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

func init() {
	add(attack{
		name: "make a server deaf for ever", as: "task-dispatcher",
		tried:   "documents of the last generation and of the last epoch that there are",
		stopped: "the server refuses what no ledger has; the dispatcher writes over it", run: forgeDocuments,
	})
	add(attack{
		name: "make a server deaf by a near generation", as: "task-dispatcher",
		tried:   "a document of a generation that the ledger will have",
		stopped: "the server is shown as ahead; restore accept raises its epoch", run: forgeNearDocument,
	})
	add(attack{
		name: "file an act under another's intent", as: "operator",
		tried:   "a request with the intent's id in its header, and 2,000 bytes as its trace",
		stopped: "the id counts only with its sender's name, the trace only as W3C has it", run: fileUnderIntent,
	})
	add(attack{
		name: "fill the memory by nesting and empty elements", as: "operator",
		tried:   "requests with 10,000 levels and with 500,000 empty names",
		stopped: "levels and elements are counted before anything is decoded", run: fillByElements,
	})
	add(attack{
		name: "take the bus's connections by silence", as: "the network", tried: "1,000 connections that never log in",
		stopped: "garrisond closes those beyond 256 of one address", run: staySilent,
	})
	add(attack{
		name: "own what root executes", as: "a local user",
		tried:   "a root below a directory that all can write, and one behind a link",
		stopped: "strict modes, as sshd has them", run: ownTheRoot,
	})
}

// executorStatus is what `executor status -o json` prints.
type executorStatus struct {
	State   string `json:"state"`
	Code    string `json:"code"`
	Applied uint64 `json:"document_generation"`
}

// status returns the state of the attacked server's executor.
func (t *trial) status() (s executorStatus, err error) {
	program := filepath.Join(bin, "executor")
	out, err := exec.CommandContext(t.Context(), program, "status", "--root", t.attacker.Root, "-o", "json").Output()
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(out, &s)
}

// runs waits until the attacked server's executor works by a document that is not forged.
func (t *trial) runs() (s executorStatus) {
	t.Helper()
	t.eventually("the server follows its true document", func() (err error) {
		if s, err = t.status(); err == nil && (s.State != "running" || s.Applied == 0 || s.Applied > 1_000_000) {
			err = fmt.Errorf("it is %+v", s)
		}
		return err
	})
	return s
}

// forge stores a document for the attacked server with the task-dispatcher's own credentials.
func (t *trial) forge(epoch, generation uint64) {
	t.Helper()
	data, err := proto.Marshal(&desiredv1.Document{
		ServerId: t.attacker.address.Server, Cell: t.attacker.address.Cell, Life: serverv1.Life_LIFE_ALIVE,
		Epoch: epoch, Generation: generation,
	})
	if err != nil {
		t.Fatal(err)
	}
	c := t.connect(t.service(topology.UserDispatcher))
	if _, err := c.Request(topology.DesiredSubject(t.attacker.address), data, 5*time.Second); err != nil {
		t.Fatal(err)
	}
}

// follow starts the executor of the attacked server.
func (t *trial) follow() {
	t.Helper()
	if err := t.attacker.Executor.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = t.attacker.Executor.Stop() })
	t.runs()
}

func forgeDocuments(t *trial) string {
	t.follow()
	for _, forged := range [][2]uint64{{1, 1<<64 - 1}, {1<<64 - 1, 1}} {
		before := t.runs().Applied
		t.forge(forged[0], forged[1])
		t.ok(t.T, "server", "refresh", t.attacker.Name) // a task, and so a true document after the forged one
		t.eventually("the server follows its next true document", func() error {
			if now := t.runs(); now.Applied <= before {
				return fmt.Errorf("it is %+v, and was at generation %d", now, before)
			}
			return nil
		})
		for line := range strings.Lines(t.attacker.Executor.Log()) {
			taken := strings.Contains(line, `"document taken"`)
			if taken && strings.Contains(line, fmt.Sprintf(`"generation":%d,`, forged[1])) {
				t.Errorf("the server followed the forged document: %s", line)
			}
		}
	}
	return "not followed; then it follows its document again"
}

func forgeNearDocument(t *trial) string {
	t.follow()
	const near = 900_000
	t.forge(1, near)
	t.eventually("the server is shown as ahead", func() error {
		out, err := t.CLI(t.Context(), "restore", "--on", t.attacker.Name, "-o", "json")
		if err == nil && !strings.Contains(out, t.attacker.address.Server) {
			err = errors.New(out)
		}
		return err
	})
	t.ok(t.T, "restore", "accept", "--on", t.attacker.Name, "--yes")
	t.eventually("the server follows the new epoch", func() error {
		s, err := t.status()
		if err == nil && (s.State != "running" || s.Applied == near) {
			err = fmt.Errorf("it is %+v", s)
		}
		return err
	})
	return "shown as ahead, and back after restore accept"
}

// api returns the subject of a method of the registry.
func (t *trial) api(who login, access, method string) string {
	return topology.APISubject(ledger.Registry, access, method, who.name)
}

// field encodes a field of bytes.
func field(number protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), content)
}

func fileUnderIntent(t *trial) string {
	who := t.person(topology.Operator)
	c := t.connect(who)
	of := ident.New() // as the id of another person's intent
	m := nats.NewMsg(t.api(who, "write", "put-record"))
	name := t.unused("environment")
	m.Data = field(1, field(2, field(1, []byte(name)))) // a record, an environment, its name
	m.Header = nats.Header{ledger.HeaderRequest: {of}, ledger.HeaderTrace: {strings.Repeat("\x1b", 2000)}}
	answer, err := c.RequestMsg(m, 5*time.Second)
	if err != nil || len(answer.Header) > 0 {
		t.Fatalf("%v, %v", answer, err)
	}
	out := t.ok(t.T, "events", "--noun", "environment", "-o", "json")
	if !strings.Contains(out, name) || strings.Contains(out, of) || strings.Contains(out, "u001b") {
		t.Errorf("filed as\n%s", out)
	}
	return "filed under an id of its own"
}

func fillByElements(t *trial) string {
	who := t.person(topology.Operator)
	c := t.connect(who)
	var deep []byte // a selector that excludes a selector, and so on
	for range 10_000 {
		deep = field(6, deep)
	}
	wide := bytes.Repeat([]byte{2<<3 | 2, 0}, 500_000)
	before, most := t.residentMiB(), 0
	lost := strings.Count(t.Garrisond.Log(), `"bus away"`)
	for range 40 {
		for _, selector := range [][]byte{deep, wide} {
			m := nats.NewMsg(t.api(who, "read", "get-restore-status"))
			m.Data, m.Reply = field(2, selector), c.NewInbox()
			if err := c.PublishMsg(m); err != nil {
				t.Fatal(err)
			}
		}
		most = max(most, t.residentMiB())
	}
	if err := c.FlushTimeout(20 * time.Second); err != nil {
		t.Fatal(err)
	}
	t.ok(t.T, "server", "list")
	most = max(most, t.residentMiB())
	if most-before > 400 {
		t.Errorf("the control plane grew from %d to %d MiB", before, most)
	}
	if n := strings.Count(t.Garrisond.Log(), `"bus away"`) - lost; n > 0 {
		t.Errorf("the bus disconnected a service %d times", n)
	}
	return fmt.Sprintf("memory %d → %d MiB", before, most)
}

// staySilent opens connections and says nothing.
func staySilent(t *trial) string {
	if len(t.Services) > 0 {
		return "not bounded by a nats-server of its own"
	}
	const many, left = 1000, 256
	var closed atomic.Int64
	address := t.URL()[strings.Index(t.URL(), "//")+2:]
	for range many {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		go func() { _, _ = io.Copy(io.Discard, c); closed.Add(1) }()
	}
	began := time.Now()
	t.eventually("most are closed", func() error {
		if n := closed.Load(); n < many-left {
			return fmt.Errorf("%d are closed", n)
		}
		return nil
	})
	t.ok(t.T, "server", "list")
	return fmt.Sprintf("%d of %d closed after %.1f s", closed.Load(), many, time.Since(began).Seconds())
}

func ownTheRoot(t *trial) string {
	dir := t.T.TempDir()
	open, link := filepath.Join(dir, "open"), filepath.Join(dir, "link")
	token := filepath.Join(dir, "token")
	_, invitation := t.guest()
	if err := errors.Join(
		os.WriteFile(token, []byte(invitation.String()+"\n"), 0o600),
		os.MkdirAll(filepath.Join(open, "root"), 0o700), os.Chmod(open, 0o777),
		os.Mkdir(filepath.Join(dir, "theirs"), 0o700), os.Symlink("theirs", link),
	); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{open, filepath.Join(open, "root"), link} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		join := exec.CommandContext(ctx, filepath.Join(bin, "executor"), "join", "--root", root, "--token-file", token)
		out, err := join.CombinedOutput()
		cancel()
		if err == nil || !strings.Contains(string(out), code.UnsafePermissions) {
			t.Errorf("join --root %s: %v\n%s", root, err, out)
		}
	}
	return "refused before anything is written; the token stays unused"
}

package attack

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/sample"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/facts"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

func init() {
	add(attack{
		name: "read the ledger itself", as: "viewer",
		tried:   "direct gets of every form, a batch of 100,000 and 1 GiB among them",
		stopped: "people have no call of JetStream; the registry answers in parts",
		run:     readLedgerItself,
	})
	add(attack{
		name: "slow others by reads of the ledger", as: "viewer",
		tried:   "reads on 8 connections, without a pause, answers not taken",
		stopped: "two reads of an actor at a time, and 16 MiB a second",
		flood: func(ctx context.Context, t *trial) {
			q, _ := proto.Marshal(&registryv1.ReadFactsRequest{Limit: facts.MostFacts})
			t.callSideBySide(ctx, "ReadFacts", q)
		},
	})
	add(attack{
		name: "slow others by lists", as: "viewer",
		tried:   "the largest part of the list of servers on 8 connections, without a pause",
		stopped: "parts of 1,000 rows and 512 KiB; eight calls of an actor at a time",
		flood: func(ctx context.Context, t *trial) {
			q, _ := proto.Marshal(&registryv1.ListServersRequest{Page: &apiv1.Page{Limit: 1000}})
			t.callSideBySide(ctx, "ListServers", q)
		},
	})
	add(attack{
		name: "read a secret", as: "every role",
		tried:   "every method of every service, the tail, every command, and every file of the control plane",
		stopped: "secrets are sealed; only a server's document has them in clear",
		run:     readSecret,
	})
}

// callSideBySide calls a method of the registry as a viewer on 8 connections until ctx is done. Answers go to a subject
// to which nothing listens.
func (t *trial) callSideBySide(ctx context.Context, method protoreflect.Name, q []byte) {
	who := t.person(topology.Viewer)
	d := client.Services[ledger.Registry].Methods().ByName(method)
	subject := bus.CallSubject(ledger.Registry, d, who.name)
	t.sideBySide(ctx, 8, who, func(c *nats.Conn, i int) {
		_ = c.PublishRequest(subject, topology.Inbox(who.name)+"."+strconv.Itoa(i), q)
		if i%64 == 0 {
			_ = c.FlushTimeout(time.Second)
		}
	})
}

func readLedgerItself(t *trial) string {
	who := t.person(topology.Viewer)
	c := t.connect(who)
	n := 0
	for _, api := range []string{topology.CoreAPI, topology.ServicesAPI, topology.NodesAPI, "GARRISON.OPS"} {
		get := api + ".DIRECT.GET." + topology.Ledger
		for _, subject := range []string{
			get, get + "." + topology.LedgerSubjects, get + "." + ledger.FactSubject("*", "*", "*"),
			api + ".STREAM.MSG.GET." + topology.Ledger, api + ".STREAM.INFO." + topology.Ledger,
			api + ".CONSUMER.CREATE." + topology.Ledger,
		} {
			if t.denied(c, subject) == nil {
				t.Errorf("the bus let %s pass", subject)
			}
			n++
		}
	}
	r, err := client.Call[*registryv1.ReadFactsResponse](t.Context(), t.operator,
		&registryv1.ReadFactsRequest{Limit: facts.MostFacts})
	if err != nil || len(r.GetFacts()) == 0 || proto.Size(r) > facts.MostBytes+1024 {
		t.Errorf("a part of the ledger has %d facts and %d bytes (%v)", len(r.GetFacts()), proto.Size(r), err)
	}
	return fmt.Sprintf("%d subjects refused by the bus", n)
}

// leaky prints a secret when it starts, and fails.
const leaky = `agent: leaky
version: 1.0.0
kind: daemon
description: prints its secret
run:
  command: beacon
  args: ["-version", "${metadata.password}", "-misbehave", "exit"]
  ready: {notify: true, timeout: 1s}
`

// hunt looks for a canary wherever it must not be.
type hunt struct {
	*trial
	canary string
	looked int
}

// look fails the attack when the canary is in data.
func (h *hunt) look(where string, data []byte) {
	h.Helper()
	h.looked++
	for _, form := range []string{h.canary, base64.StdEncoding.EncodeToString([]byte(h.canary))[:16]} {
		if bytes.Contains(data, []byte(form)) {
			h.Errorf("%s shows the secret", where)
		}
	}
}

func readSecret(t *trial) string {
	h := &hunt{trial: t, canary: "canary-" + ident.New()}
	tail := h.listen()
	h.setEverywhere()
	for _, role := range topology.Roles {
		h.callEverything(role)
	}
	h.commands()
	for len(tail) > 0 {
		m := <-tail
		h.look("the tail", append([]byte(fmt.Sprint(m.Header)), m.Data...))
	}
	h.files()
	return fmt.Sprintf("not found in %d answers, outputs, messages and files", h.looked)
}

// listen collects the tail of the ledger.
func (h *hunt) listen() chan *nats.Msg {
	c := h.connect(h.person(topology.Viewer))
	tail := make(chan *nats.Msg, 10_000)
	if _, err := c.ChanSubscribe(topology.TailSubject, tail); err != nil {
		h.Fatal(err)
	}
	if err := c.FlushTimeout(5 * time.Second); err != nil {
		h.Fatal(err)
	}
	return tail
}

// setEverywhere sets the canary in every layer of metadata and by an intent, and has an agent print it and fail.
func (h *hunt) setEverywhere() {
	file := filepath.Join(h.Dir, "canary.txt")
	if err := os.WriteFile(file, []byte(h.canary+"\n"), 0o600); err != nil {
		h.Fatal(err)
	}
	defer func() { _ = os.Remove(file) }()
	secret := "password=@" + file
	h.ok(h.T, "app", "create", "vault", "--set-secret", secret)
	h.ok(h.T, "env", "create", "hidden", "--set-secret", "inherited=@"+file)
	h.ok(h.T, "agent", "create", "leaky", "--kind", "daemon", "--app", "vault", "--set-secret", "own=@"+file)
	dir := filepath.Join(h.Dir, "leaky")
	if err := sample.Fill(dir, filepath.Join(bin, "beacon"), "beacon", leaky); err != nil {
		h.Fatal(err)
	}
	if err := sample.Activate(h.Context(), h.CLI, dir); err != nil {
		h.Fatal(err)
	}
	h.ok(h.T, "server", "set", h.victim.Name, "--env", "hidden", "--yes")
	_, failed := h.CLI(h.Context(), "install", "leaky", "--on", h.victim.Name)
	for listed, err := range h.operator.Tasks(h.Context(), &dispatcherv1.ListTasksRequest{Agent: "leaky"}) {
		if err != nil {
			h.Fatal(err)
		}
		task, err := h.operator.Task(h.Context(), listed.GetId())
		one := &dispatcherv1.SealedOutput{TaskId: task.GetId(), Sealed: task.GetOutcome().GetLogTail()}
		q := &dispatcherv1.OpenOutputsRequest{Sealed: []*dispatcherv1.SealedOutput{one}}
		r, refused := client.Call[*dispatcherv1.OpenOutputsResponse](h.Context(), h.operator, q)
		if err != nil || refused != nil || !strings.Contains(r.GetOutputs()[0], "beacon <secret ") {
			h.Errorf("the task lacks the output of the agent: %v, %q (%v, %v)", task, r.GetOutputs(), refused, failed)
		}
		d := dispatcherv1.File_garrison_dispatcher_v1_dispatcher_service_proto.Services().ByName("DispatcherService")
		open := bus.CallSubject(ledger.Dispatcher, d.Methods().ByName("OpenOutputs"), "ann")
		if strings.Contains(one.Sealed, "beacon") || topology.RolePermissions(topology.Viewer).MayPublish("ann", open) {
			h.Errorf("everyone reads the output of the agent: %q", one.Sealed)
		}
		h.look("the task of the agent", []byte(task.String()))
	}
	h.ok(h.T, "configure", sample.Agent, "--set-secret", secret, "--on", h.victim.Name, "--yes")
	journal, err := os.ReadFile(filepath.Join(h.victim.Root, "executor", "journal.db"))
	if err == nil && !bytes.Contains(journal, []byte(h.canary)) {
		h.Error("the server does not have the secret")
	}
}

// callEverything calls every method of every service that a role may call, with the names of what has the secret. The
// bus refuses the others without an answer.
func (h *hunt) callEverything(role topology.Role) {
	who := h.person(role)
	c, may := h.connect(who), topology.RolePermissions(role)
	about := apiv1.File_garrison_api_v1_api_proto.Services().ByName("AboutService")
	for service, d := range client.Services {
		for _, methods := range []protoreflect.MethodDescriptors{d.Methods(), about.Methods()} {
			for i := range methods.Len() {
				m := methods.Get(i)
				subject := bus.CallSubject(service, m, who.name)
				if !may.MayPublish(who.name, subject) {
					continue
				}
				for _, q := range h.requests(m) {
					msg := nats.NewMsg(subject)
					msg.Data, _ = proto.Marshal(q)
					r, err := c.RequestMsg(msg, 10*time.Second)
					if err != nil {
						h.Errorf("%s as %s: %v", subject, role, err)
						continue
					}
					h.look(fmt.Sprintf("%s.%s as %s", service, m.Name(), role),
						append([]byte(fmt.Sprint(r.Header)), r.Data...))
				}
			}
		}
	}
}

// requests returns an empty request of a method, and, of one that changes nothing, one with names in its fields.
func (h *hunt) requests(m protoreflect.MethodDescriptor) []proto.Message {
	t, err := protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName())
	if err != nil {
		h.Fatal(err)
	}
	empty, named := t.New(), t.New()
	if bus.AccessOf(m) != "read" {
		return []proto.Message{empty.Interface()}
	}
	values := map[protoreflect.Name]string{
		"server": h.victim.Name, "server_id": h.victim.address.Server, "agent": sample.Agent, "environment": "hidden",
	}
	for name, value := range values {
		f := m.Input().Fields().ByName(name)
		if f != nil && f.Kind() == protoreflect.StringKind && !f.IsList() && !f.IsMap() {
			named.Set(f, protoreflect.ValueOfString(value))
		}
	}
	return []proto.Message{empty.Interface(), named.Interface()}
}

// commands runs the commands that show something, in several formats.
func (h *hunt) commands() {
	v := h.victim.Name
	for _, line := range [][]string{
		{"app", "list"}, {"app", "show", "vault"}, {"env", "show", "hidden"}, {"agent", "show", "leaky"},
		{"agent", "list"}, {"env", "list"}, {"instance", "list"}, {"instance", "show", v, sample.Agent},
		{"instance", "show", v, "leaky"}, {"intent", "list"}, {"task", "list"}, {"server", "show", v},
		{"server", "list"},
		{"events"}, {"explain", v}, {"explain", v, "leaky"}, {"versions"}, {"image", "list", "--newer"},
		{"configure", "leaky", "--on", v, "--dry-run"}, {"up", "leaky", "--on", v, "--dry-run"},
		{"configure", sample.Agent, "--set-secret", "password=" + h.canary, "--on", v, "--dry-run"},
		{"configure", sample.Agent, "--set", "password=clear", "--on", v, "--dry-run"},
		{"configure", sample.Agent, "--set-secret", h.canary, "--on", v},
	} {
		for _, format := range []string{"wide", "json"} {
			out, err := h.CLI(h.Context(), append(line, "-o", format)...)
			if failed, ok := errors.AsType[*rig.CLIError](err); ok {
				out += failed.Stderr
			} else if err != nil {
				h.Fatal(err)
			}
			h.look("garrison "+strings.Join(line[:min(2, len(line))], " ")+" -o "+format, []byte(out))
		}
	}
}

// files looks at everything that the control plane has on the disk, but for the documents of servers.
func (h *hunt) files() {
	found := false
	err := filepath.WalkDir(h.Dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil: // gone meanwhile
			return nil
		case d.IsDir() && path == filepath.Join(h.Dir, "servers"):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		if strings.Contains(path, string(filepath.Separator)+topology.Desired+string(filepath.Separator)) {
			found = found || bytes.Contains(data, []byte(h.canary))
			return nil
		}
		h.look(path, data)
		return nil
	})
	if err != nil || !found {
		h.Errorf("the documents have the secret: %v (%v)", found, err)
	}
}

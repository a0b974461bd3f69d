package attack

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/nats-io/nkeys"
	"google.golang.org/protobuf/proto"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	externalv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/external/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/e2e/sample"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// bytesSecond is what one server may write into the ledger in a second while it floods, after a burst.
const bytesSecond = 1 << 10

// words returns a text of a size that no other call returns, without digits.
func words(size int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	start := make([]byte, 16)
	for i := range start {
		start[i] = letters[rand.IntN(len(letters))]
	}
	return string(start[:min(size, len(start))]) + strings.Repeat("x", max(0, size-len(start)))
}

func init() {
	beat := func(size int) func(*trial) proto.Message {
		return func(t *trial) proto.Message {
			return &reportv1.Beat{ServerId: t.attacker.address.Server, BootId: words(size), SessionId: "one"}
		}
	}
	sysinfo, agents := reportSubject(topology.ReportSysinfo), reportSubject(topology.ReportAgents)
	fill(attack{
		name: "fill the ledger by large beats", tried: "beats with ever new boots of 200 KB",
		stopped: "beats are sized before they are read",
	}, 2<<10, topology.BeatSubject, beat(200_000))
	fill(attack{
		name: "fill the ledger by small beats", tried: "beats with ever new boots",
		stopped: "one boot in two beat intervals",
	}, 2<<10, topology.BeatSubject, beat(40))
	fill(attack{
		name: "fill the ledger by sysinfo", tried: "a sysinfo of 200 KB that differs each time",
		stopped: "16 KiB, and one in 10 s",
	}, 20<<10, sysinfo, func(t *trial) proto.Message { return t.sysinfo("") })
	fill(attack{
		name: "fill the ledger by answers", tried: "a sysinfo under ever new task ids",
		stopped: "only a refresh under way is answered, once",
	}, 20<<10, sysinfo, func(t *trial) proto.Message { return t.sysinfo(ident.New()) })
	fill(attack{
		name: "fill the ledger by health", tried: "reasons of 100 KB that differ each time",
		stopped: "1 KiB, ten in a row, then one a minute",
	}, 20<<10, agents, (*trial).illness)
	health := &book[len(book)-1]
	flood := health.run
	health.run = func(t *trial) string { // an agent is wanted meanwhile
		defer t.failInstall(t.install())
		return flood(t)
	}
	add(attack{
		name: "fill the ledger by external instances", as: "reporter",
		tried:   "reports of 500 instances of 5 KB that differ each time",
		stopped: "ten changes of an instance in a row, then one a minute; a budget of bytes a day",
		run:     (*trial).reportMany,
	})
	add(attack{
		name: "break lists by an enrolment", as: "guest", tried: "an enrolment with a sysinfo as large as can be sent",
		stopped: "16 KiB for each sysinfo", run: (*trial).enrolLarge,
	})
	add(attack{
		name: "break lists by a beat", as: "server", tried: "one beat with a boot as large as can be sent",
		stopped: "4 KiB for each beat", run: (*trial).beatLarge,
	})
}

// fill adds an attack of a server that sends ever new messages on a subject, side by side.
func fill(
	a attack, burst float64, subject func(topology.ServerAddress) string, message func(*trial) proto.Message,
) {
	a.as = "server"
	a.run = func(t *trial) string {
		before, started := t.ledgerBytes(), time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), floodFor())
		defer cancel()
		t.sideBySide(ctx, 1, t.attacker.login, func(c *nats.Conn, _ int) {
			data, err := proto.Marshal(message(t))
			if err != nil {
				t.Error(err)
			}
			_ = c.Publish(subject(t.attacker.address), data)
			unsuspended(len(data))
		})
		wrote, took := t.ledgerBytes()-before, time.Since(started).Seconds()
		if limit := burst + bytesSecond*took; float64(wrote) > limit {
			t.Errorf("the ledger grew by %d bytes in %.1f s; want %.0f at most", wrote, took, limit)
		}
		return fmt.Sprintf("%.1f KiB/s into the ledger for %.1f s; lists in %v",
			float64(wrote)/1024/took, took, t.lists())
	}
	add(a)
}

// reportMany reports 20 instances, each time with other values, until no change is recorded.
func (t *trial) reportMany() string {
	who, agent := t.person(topology.Reporter), t.unused("vm")
	t.ok(t.T, "agent", "create", agent, "--kind", "external", "--reporter", who.name)
	c := t.connect(who)
	before, changed, sent := t.ledgerBytes(), 0, 0
	for ctx, cancel := context.WithTimeout(t.Context(), floodFor()); ; sent++ {
		q := &registryv1.ReportExternalRequest{Agent: agent}
		for n := range 20 {
			f := &externalv1.Found{
				Name: fmt.Sprint("vm-", n), Health: instancev1.Health_HEALTH_BAD, Reason: words(512),
				Properties: map[string]string{},
			}
			for p := range 16 {
				f.Properties[fmt.Sprint(p)] = words(256)
			}
			q.Found = append(q.Found, f)
		}
		var r registryv1.ReportExternalResponse
		if err := t.ask(c, t.api(who, "report", "report-external"), q, &r); err != nil {
			t.Fatal(err)
		}
		changed += int(r.Changed)
		if ctx.Err() != nil || r.Changed == 0 {
			cancel()
			break
		}
	}
	const most = 20 * (10 + 1) // one more each minute
	if wrote := t.ledgerBytes() - before; changed > most || wrote > most*8<<10 {
		t.Errorf("%d reports led to %d facts and %d bytes; want %d facts at most", sent, changed, wrote, most)
	}
	return fmt.Sprintf("%d facts of %d reports", changed, sent+1)
}

// install makes the sample agent wanted on the attacker, where it never comes, and returns the task.
func (t *trial) install() (task *taskv1.Task) {
	t.Helper()
	data, err := proto.Marshal(&reportv1.Beat{ServerId: t.attacker.address.Server, BootId: "boot"})
	if err != nil {
		t.Fatal(err)
	}
	t.ok(t.T, "install", sample.Agent, "--on", t.attacker.Name, "--detach")
	c := t.connect(t.attacker.login)
	t.eventually("the install is assigned", func() error {
		q := &dispatcherv1.ListTasksRequest{ServerId: t.attacker.address.Server}
		if err := c.Publish(topology.BeatSubject(t.attacker.address), data); err != nil {
			return err
		}
		for task = range t.operator.Tasks(t.Context(), q) {
			if task.GetState() == taskv1.State_STATE_ASSIGNED {
				return nil
			}
		}
		return fmt.Errorf("the task is %v", task)
	})
	return task
}

// failInstall ends the install as an executor would that failed, and decommissions the attacker.
func (t *trial) failInstall(task *taskv1.Task) {
	t.Helper()
	data, err := proto.Marshal(&reportv1.Report{
		ServerId: t.attacker.address.Server, BootId: "boot", Sequence: rand.Uint64(),
		Body: &reportv1.Report_Task{Task: &reportv1.TaskReport{TaskId: task.Id, State: taskv1.State_STATE_FAILED}},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := t.connect(t.attacker.login)
	if err := c.Publish(topology.ReportSubject(t.attacker.address, topology.ReportTask), data); err != nil {
		t.Fatal(err)
	}
	t.eventually("the install failed", func() error {
		have, err := t.operator.Task(t.Context(), task.Id)
		if err == nil && have.GetState() != taskv1.State_STATE_FAILED {
			err = fmt.Errorf("the task is %v", have.GetState())
		}
		return err
	})
	t.ok(t.T, "server", "decommission", t.attacker.Name, "--lost", "--force", "--yes")
}

func reportSubject(kind string) func(topology.ServerAddress) string {
	return func(a topology.ServerAddress) string { return topology.ReportSubject(a, kind) }
}

// sysinfo returns a report of the attacker's machine that no other call returns.
func (t *trial) sysinfo(task string) proto.Message {
	return &reportv1.Report{
		ServerId: t.attacker.address.Server, BootId: "boot", Sequence: rand.Uint64(),
		Body: &reportv1.Report_Sysinfo{Sysinfo: &reportv1.SysinfoReport{TaskId: task, Sysinfo: &serverv1.Sysinfo{
			Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"}, Kernel: words(200_000),
		}}},
	}
}

// illness returns a report of the attacker's agent that is not well, for a reason that no other call returns.
func (t *trial) illness() proto.Message {
	return &reportv1.Report{
		ServerId: t.attacker.address.Server, BootId: "boot", Sequence: rand.Uint64(),
		Body: &reportv1.Report_Agents{Agents: &reportv1.AgentsReport{Agents: []*reportv1.Found{{
			Agent: sample.Agent, Health: instancev1.Health_HEALTH_BAD, Reason: words(100_000),
			Image: &imagev1.Ref{Id: "image", Version: "1.0.0"},
		}}}},
	}
}

func (t *trial) enrolLarge() string {
	who, token := t.guest()
	c := t.connect(who)
	q := &registryv1.EnrolRequest{
		ServerId: token.ServerID, Secret: token.Secret, PublicKey: newKey(t.T),
		Sysinfo: &serverv1.Sysinfo{Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"}},
	}
	size := largest(t.T, c)
	q.Sysinfo.Kernel = words(size)
	data, err := proto.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	before := t.ledgerBytes()
	at := topology.ServerAddress{Cell: token.Cell, Server: token.ServerID}
	answer, err := c.Request(topology.EnrolSubject(at), data, 5*time.Second)
	if err != nil || answer.Header.Get(micro.ErrorHeader) != "" {
		t.Errorf("enrol with %d bytes: %v %v", size, answer, err)
	}
	if wrote := t.ledgerBytes() - before; wrote > 20<<10 {
		t.Errorf("the ledger grew by %d bytes", wrote)
	}
	return fmt.Sprintf("%d bytes sent, %d into the ledger; lists in %v", size, t.ledgerBytes()-before, t.lists())
}

func (t *trial) beatLarge() string {
	c := t.connect(t.attacker.login)
	size := largest(t.T, c)
	before := t.ledgerBytes()
	for _, size := range []int{size, size / 4} { // a limit may drop one of them
		data, err := proto.Marshal(&reportv1.Beat{ServerId: t.attacker.address.Server, BootId: words(size)})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Publish(topology.BeatSubject(t.attacker.address), data); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
	}
	if wrote := t.ledgerBytes() - before; wrote > 4<<10 {
		t.Errorf("the ledger grew by %d bytes", wrote)
	}
	return fmt.Sprintf("%d bytes sent, %d into the ledger; lists in %v", size, t.ledgerBytes()-before, t.lists())
}

// largest returns how large a text in a message may be so that the bus takes it. The bus tells a client its limit just
// after the login.
func largest(t *testing.T, c *nats.Conn) int {
	t.Helper()
	if err := c.FlushTimeout(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	return int(c.MaxPayload()) - 2_600
}

// lists returns how long the list of servers takes, which must answer.
func (t *trial) lists() time.Duration {
	t.Helper()
	started := time.Now()
	t.ok(t.T, "server", "list")
	return time.Since(started).Round(time.Millisecond)
}

// ledgerBytes returns the size of the ledger.
func (t *trial) ledgerBytes() int64 {
	t.Helper()
	c := t.connect(t.service(topology.UserProvision))
	defer c.Close()
	m, err := c.Request("$JS.API.STREAM.INFO."+topology.Ledger, nil, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var info struct{ State struct{ Bytes int64 } }
	if err := json.Unmarshal(m.Data, &info); err != nil || info.State.Bytes == 0 {
		t.Fatalf("size of the ledger: %s (%v)", m.Data, err)
	}
	return info.State.Bytes
}

// newKey returns the public half of a key that was just made.
func newKey(t *testing.T) string {
	t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return public
}

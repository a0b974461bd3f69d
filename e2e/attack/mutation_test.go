package attack

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

func init() {
	add(attack{
		name: "break something by mutated messages", as: "server, guest, admin",
		tried:   "damaged protobuf, JSON and headers on every subject of servers, guests and people",
		stopped: "strict reading; bounds on what is kept",
		run:     (*trial).mutate,
	})
}

// target is a subject and the message that belongs on it; nil for one that carries none.
type target struct {
	subject func() string
	message protoreflect.MessageDescriptor
}

// mutate sends mutated messages on every subject, and checks that everything works as before.
func (t *trial) mutate() string {
	n := 3_000
	if *full {
		n = 100_000
	}
	random := rand.New(rand.NewPCG(1, uint64(n)))
	memory := t.sample()
	sent := 0
	guest, token := t.guest()
	enrol := topology.EnrolSubject(topology.ServerAddress{Cell: token.Cell, Server: token.ServerID})
	for _, from := range []struct {
		login
		targets []target
		share   int // percent of the messages
	}{
		{t.attacker.login, serverTargets(t.attacker.address), 30},
		{guest, []target{{fixed(enrol), (&reportv1.Report{}).ProtoReflect().Descriptor()}}, 10},
		{t.person(topology.Admin), nil, 60},
	} {
		if from.targets == nil {
			from.targets = personTargets(from.name)
		}
		c := t.connect(from.login)
		for i := range n * from.share / 100 {
			of := from.targets[i%len(from.targets)]
			_ = c.PublishMsg(mutated(random, of, c.NewInbox())) // a subject may be none
			sent++
			time.Sleep(time.Millisecond) // a key that sends too much in a second is suspended
		}
		if err := c.FlushTimeout(10 * time.Second); err != nil {
			t.Errorf("the connection of %s: %v", from.name, err)
		}
	}
	t.stillWorks()
	return fmt.Sprintf("%d messages; MiB %s; dead letters %s", sent, memory(), t.lettersWithinBounds())
}

// stillWorks fails the attack unless every process runs, none panicked, and the victim can be upgraded.
func (t *trial) stillWorks() {
	t.Helper()
	if took := t.upgrades(time.Millisecond); len(took) == 0 {
		t.Error("no upgrade")
	}
	processes := append([]interface {
		Running() bool
		Log() string
	}{t.Garrisond, t.victim.Executor}, nil...)
	for _, p := range t.Services {
		processes = append(processes, p)
	}
	for _, p := range processes {
		if log := p.Log(); !p.Running() || strings.Contains(log, "panic") {
			t.Errorf("a process ended or panicked: %s", log[max(0, len(log)-1000):])
		}
	}
}

// lettersWithinBounds counts the dead letters. No sender may have more than its share.
func (t *trial) lettersWithinBounds() string {
	t.Helper()
	all := 0
	for subject, n := range t.deadLetters() {
		if all += n; n > topology.DeadLettersKept {
			t.Errorf("%d dead letters on %s, want at most %d", n, subject, topology.DeadLettersKept)
		}
	}
	return fmt.Sprint(all)
}

func fixed(subject string) func() string { return func() string { return subject } }

func serverTargets(at topology.ServerAddress) (all []target) {
	report := (&reportv1.Report{}).ProtoReflect().Descriptor()
	for _, kind := range []string{
		topology.ReportTask, topology.ReportAgents, topology.ReportSysinfo, topology.ReportReceipt,
	} {
		all = append(all, target{fixed(topology.ReportSubject(at, kind)), report})
	}
	chunk := topology.ChunkAddress{ServerAddress: at, Digest: strings.Repeat("0", 64)}
	return append(all,
		target{fixed(topology.BeatSubject(at)), (&reportv1.Beat{}).ProtoReflect().Descriptor()},
		target{fixed(topology.LiveSubject(at, topology.LiveTask)), (&taskv1.Progress{}).ProtoReflect().Descriptor()},
		target{fixed(topology.RenewSubject(at)), report},
		target{fixed(topology.ChunkRequestSubject(chunk)), nil},
		target{fixed(topology.NodesAPI + ".DIRECT.GET.DESIRED." + topology.DesiredSubject(at)), nil})
}

// personTargets lists every intent, and every method of every service.
func personTargets(actor string) (all []target) {
	for _, verb := range []string{
		topology.VerbInstall, topology.VerbUpgrade, topology.VerbRemove, topology.VerbRefresh,
		topology.VerbDecommission, topology.VerbConfigure, topology.VerbUndo,
	} {
		subject := func() string { return topology.IntentSubject(verb, actor, ident.New()) }
		all = append(all, target{subject, (&intentv1.Intent{}).ProtoReflect().Descriptor()})
	}
	for service, d := range client.Services {
		for i := range d.Methods().Len() {
			m := d.Methods().Get(i)
			all = append(all, target{fixed(bus.CallSubject(service, m, actor)), m.Input()})
		}
	}
	return all
}

// mutated returns a message for a target that is damaged in one of many ways, or in none.
func mutated(r *rand.Rand, of target, reply string) *nats.Msg {
	m := nats.NewMsg(of.subject())
	m.Reply = reply
	if of.message == nil {
		m.Data = []byte(noise(r, r.IntN(40)))
		return m
	}
	body := dynamicpb.NewMessage(of.message)
	populate(r, body, 3)
	if m.Data, _ = proto.Marshal(body); r.IntN(3) == 0 {
		m.Data, _ = protojson.Marshal(body)
		m.Header.Set("Content-Type", "application/json")
	}
	for range r.IntN(4) {
		m.Data = damage(r, m.Data)
	}
	if r.IntN(5) == 0 {
		names := []string{"Content-Type", "Garrison-Request", "traceparent", "Nats-Rollup", "Nats-Expected-Stream"}
		m.Header.Set(names[r.IntN(len(names))], noise(r, r.IntN(300)))
	}
	return m
}

// damage returns data with bytes changed, cut, doubled or put in.
func damage(r *rand.Rand, data []byte) []byte {
	if len(data) == 0 {
		return []byte(noise(r, 1+r.IntN(20)))
	}
	at := r.IntN(len(data))
	switch r.IntN(4) {
	case 0:
		data[at] ^= byte(1 << r.IntN(8))
		return data
	case 1:
		return data[:at]
	case 2:
		return append(data, data[at:]...)
	}
	return append(data[:at:at], append([]byte(noise(r, 1+r.IntN(50))), data[at:]...)...)
}

// noise returns a text of n bytes, of those that are troublesome somewhere.
func noise(r *rand.Rand, n int) string {
	const bytes = "\x00\x1b\x7f\x80\xff{}[]\"'\\*>. aA0-/$%:=;\u202e"
	var b strings.Builder
	for b.Len() < n {
		b.WriteByte(bytes[r.IntN(len(bytes))])
	}
	return strings.NewReplacer("\r", "", "\n", "").Replace(b.String())
}

// populate sets about half of a message's fields, and those of its messages to a depth.
func populate(r *rand.Rand, m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if r.IntN(2) == 0 || depth == 0 {
			continue
		}
		switch {
		case f.IsMap():
		case f.IsList():
			list := m.Mutable(f).List()
			for range r.IntN(4) {
				if f.Message() == nil {
					list.Append(scalar(r, f))
					continue
				}
				populate(r, list.AppendMutable().Message(), depth-1)
			}
		case f.Message() != nil:
			populate(r, m.Mutable(f).Message(), depth-1)
		default:
			m.Set(f, scalar(r, f))
		}
	}
}

func scalar(r *rand.Rand, f protoreflect.FieldDescriptor) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString([]string{"", "beacon", ident.New(), "x", strings.Repeat("y", 300)}[r.IntN(5)])
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(noise(r, r.IntN(40))))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(false) // true may mean everything: all servers, by force
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(r.IntN(6)))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(r.Int32())
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(r.Uint32())
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(r.Int64())
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(r.Uint64())
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(r.Float32())
	}
	return protoreflect.ValueOfFloat64(r.Float64())
}

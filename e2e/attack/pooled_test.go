package attack

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

func init() {
	add(attack{
		name: "use a pooled token from elsewhere", as: "guest",
		tried:   "from another address than the token allows, and with headers that claim the right one",
		stopped: "the address that the bus itself adds to the request", run: joinFromElsewhere,
	})
	add(attack{
		name: "listen with a pooled token", as: "guest",
		tried:   "subscriptions to the inbox that all holders share, and requests on the subjects of others",
		stopped: "answers are sealed to the server that asks; permissions", run: listenWithPooled,
	})
	add(attack{
		name: "join more often than a pooled token allows", as: "guest",
		tried:   "eight requests at once, each with a key of its own, for two uses",
		stopped: "a use and its servers are one step, guarded by the token's last fact", run: joinTooOften,
	})
}

// pooled makes a pooled token and returns its login.
func (t *trial) pooled(flags ...string) (login, trust.Token) {
	t.Helper()
	out := t.ok(t.T, append([]string{"token", "create", t.unused("pool")}, flags...)...)
	token, err := trust.ParseToken(out)
	if err != nil {
		t.Fatal(err)
	}
	return login{token.Pool, token.JWT, token.Seed}, token
}

// joining is a request to join with a pooled token, with a key of its own, and the key that opens its answer.
func (t *trial) joining(token trust.Token) (*registryv1.EnrolRequest, trust.SealKey) {
	t.Helper()
	public, _, err := trust.NewUserKey()
	if err != nil {
		t.Fatal(err)
	}
	seal, err := trust.NewSealKey()
	if err != nil {
		t.Fatal(err)
	}
	return &registryv1.EnrolRequest{
		ServerId: token.Pool, Secret: token.Secret, PublicKey: public, SealKey: seal.Public(),
		Sysinfo: &serverv1.Sysinfo{Hostname: "stolen", Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"}},
	}, seal
}

// enrolSubject is where the holders of a pooled token ask.
func enrolSubject(token trust.Token) string {
	return topology.EnrolSubject(topology.ServerAddress{Cell: token.Cell, Server: token.Pool})
}

func joinFromElsewhere(t *trial) string {
	who, token := t.pooled("--uses", "5", "--from-address", "127.0.0.1")
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: 5 * time.Second}
	thief := t.connect(who, nats.SetCustomDialer(&from))
	const info = "Nats-Request-Info"
	claim := `{"host":"127.0.0.1"}`
	for name, header := range map[string]nats.Header{
		"no header": nil, "a claim": {info: {claim}}, "two claims": {info: {claim, claim}},
		"a claim in small letters": {strings.ToLower(info): {claim}},
		"a claim behind another":   {"A": {"b"}, info: {claim}},
	} {
		q, _ := t.joining(token)
		data, err := proto.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		m, err := thief.RequestMsg(&nats.Msg{Subject: enrolSubject(token), Data: data, Header: header}, 10*time.Second)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !bytes.Contains(m.Data, []byte(code.OutsideRange)) {
			t.Errorf("%s: the registry answers %q", name, m.Data)
		}
	}
	// From the right address it works, and the claim of another one does no harm.
	q, seal := t.joining(token)
	answer := &registryv1.EnrolResponse{}
	if err := t.ask(t.connect(who), enrolSubject(token), q, answer); err != nil {
		t.Fatalf("from the right address: %v", err)
	}
	if _, err := seal.Open(answer.Sealed, answer.SealedBy); err != nil {
		t.Error(err)
	}
	return "OUTSIDE_RANGE five times"
}

func listenWithPooled(t *trial) string {
	who, token := t.pooled("--uses", "5")
	spy := t.connect(who)
	heard := make(chan *nats.Msg, 64)
	if _, err := spy.ChanSubscribe(topology.Inbox(who.name)+".>", heard); err != nil {
		t.Fatal(err)
	}
	if err := spy.FlushTimeout(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	q, seal := t.joining(token)
	answer := &registryv1.EnrolResponse{}
	if err := t.ask(t.connect(who), enrolSubject(token), q, answer); err != nil {
		t.Fatalf("join: %v", err)
	}
	opened, err := seal.Open(answer.Sealed, answer.SealedBy)
	if err != nil {
		t.Fatal(err)
	}
	own := &registryv1.EnrolResponse{}
	if err := proto.Unmarshal(opened, own); err != nil || own.ServerId == "" {
		t.Fatalf("the answer %v: %v", own, err)
	}
	select {
	case m := <-heard:
		for what, secret := range map[string]string{"id": own.ServerId, "credentials": own.UserJwt} {
			if bytes.Contains(m.Data, []byte(secret)) {
				t.Errorf("the %s of another server can be read", what)
			}
		}
		_, other := t.joining(token)
		if _, err := other.Open(answer.Sealed, answer.SealedBy); err == nil {
			t.Error("another key opens the answer")
		}
	case <-time.After(time.Minute):
		t.Error("nothing was heard, so nothing was tried")
	}
	at := topology.ServerAddress{Cell: token.Cell, Server: own.ServerId}
	for _, subject := range []string{
		topology.BeatSubject(at), topology.ReportSubject(at, topology.ReportTask), topology.RenewSubject(at),
		topology.EnrolSubject(t.victim.address), topology.Inbox(who.name) + ".forged",
	} {
		if t.denied(spy, subject) == nil {
			t.Errorf("the token may publish on %s", subject)
		}
	}
	return "sealed answers only"
}

func joinTooOften(t *trial) string {
	who, token := t.pooled("--uses", "2")
	const tries = 8
	codes := make(chan string, tries)
	c := t.connect(who) // access ends the connections beyond the third
	for range tries {
		q, _ := t.joining(token)
		go func() {
			err := t.ask(c, enrolSubject(token), q, &registryv1.EnrolResponse{})
			switch {
			case err == nil:
				codes <- ""
			case strings.Contains(err.Error(), code.TokenUsedUp):
				codes <- code.TokenUsedUp
			default:
				codes <- err.Error()
			}
		}()
	}
	count := map[string]int{}
	for range tries {
		count[<-codes]++
	}
	if count[""] != 2 || count[code.TokenUsedUp] != tries-2 {
		t.Errorf("answers %v, want 2 and %d refusals", count, tries-2)
	}
	return fmt.Sprintf("%d of %d refused", count[code.TokenUsedUp], tries)
}

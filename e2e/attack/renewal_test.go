package attack

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"google.golang.org/protobuf/proto"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

func init() {
	add(attack{
		name: "listen with a used join token", as: "guest",
		tried:   "subscriptions to every inbox and subject of the server that used it",
		stopped: "an account of guests; the token's key is refused soon after its use",
		run:     listenAfterUse,
	})
	add(attack{
		name: "never leave", as: "server",
		tried: "beats after a decommission, and no removal", stopped: "decommission --lost --force",
		run: neverLeave,
	})
	add(attack{
		name: "renew another's credentials", as: "server",
		tried: "a request on its subject, and one with a key of its own", stopped: "permissions; OTHER_KEY",
		run: renewAnothers,
	})
	add(attack{
		name: "slow others by renewals", as: "server",
		tried: "requests without an end", stopped: "twenty answers a minute",
		flood: func(ctx context.Context, t *trial) {
			q, _ := proto.Marshal(&registryv1.RenewRequest{ServerId: t.attacker.address.Server, PublicKey: "key"})
			t.sideBySide(ctx, 2, t.attacker.login, func(c *nats.Conn, _ int) {
				_ = c.PublishRequest(topology.RenewSubject(t.attacker.address), c.NewInbox(), q)
			})
		},
	})
}

// listenAfterUse joins with a token, and listens with it while the server reads its document.
func listenAfterUse(t *trial) string {
	who, token := t.guest()
	spy := t.connect(who)
	var heard atomic.Int64
	at := topology.ServerAddress{Cell: token.Cell, Server: token.ServerID}
	for _, subject := range []string{
		topology.Inbox(who.name) + ".>", topology.BellSubject(at), topology.BeatSubject(at),
		topology.ReportSubject(at, topology.ReportTask), topology.DesiredSubject(at),
	} {
		if _, err := spy.Subscribe(subject, func(*nats.Msg) { heard.Add(1) }); err != nil {
			t.Fatal(err)
		}
	}
	public, seed, err := trust.NewUserKey()
	if err != nil {
		t.Fatal(err)
	}
	answer := &registryv1.EnrolResponse{}
	err = t.ask(spy, topology.EnrolSubject(at), &registryv1.EnrolRequest{
		ServerId: at.Server, Secret: token.Secret, PublicKey: public,
		Sysinfo: &serverv1.Sysinfo{Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"}},
	}, answer)
	if err != nil {
		t.Fatalf("enrol: %v", err)
	}
	for end := time.Now().Add(5 * time.Second); heard.Load() == 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond) // its own answer comes to the subscription too
	}
	before := heard.Load()
	joined := t.connect(login{at.Server, answer.GetUserJwt(), string(seed)})
	for range 5 {
		document := topology.NodesAPI + ".DIRECT.GET.DESIRED." + topology.DesiredSubject(at)
		if _, err := joined.Request(document, nil, 5*time.Second); err != nil {
			t.Fatalf("the server reads its document: %v", err)
		}
		if err := joined.Publish(topology.BeatSubject(at), []byte("beat")); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(joined.FlushTimeout(5*time.Second), spy.FlushTimeout(5*time.Second)); err != nil {
		t.Fatal(err)
	}
	if n := heard.Load() - before; n > 0 {
		t.Errorf("it heard %d messages of the server", n)
	}
	return "nothing heard"
}

// neverLeave beats, and answers no removal, until the operator decommissions the server by force.
func neverLeave(t *trial) string {
	c := t.connect(t.attacker.login, nats.NoReconnect())
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		beat, _ := proto.Marshal(&reportv1.Beat{ServerId: t.attacker.address.Server, BootId: "boot"})
		for ctx.Err() == nil {
			_ = c.Publish(topology.BeatSubject(t.attacker.address), beat)
			time.Sleep(100 * time.Millisecond)
		}
	}()
	name := t.attacker.Name
	t.eventually("it is online", func() error {
		if out := t.ok(t.T, "server", "show", name, "-o", "json"); !strings.Contains(out, `"presence": "online"`) {
			return errors.New(out)
		}
		return nil
	})
	if _, err := t.CLI(t.Context(), "server", "decommission", name, "--lost", "--yes"); err == nil {
		t.Error("a server that beats counts as lost")
	}
	return t.shutOut(t.attacker.login, "server", "decommission", name, "--lost", "--force", "--yes")
}

func renewAnothers(t *trial) string {
	c := t.connect(t.attacker.login)
	if t.denied(c, topology.RenewSubject(t.victim.address)) == nil {
		t.Error("the bus let a request in another's name pass")
	}
	public, _, err := trust.NewUserKey()
	if err != nil {
		t.Fatal(err)
	}
	for name, q := range map[string]*registryv1.RenewRequest{
		"of another key":    {ServerId: t.attacker.address.Server, PublicKey: public},
		"of another server": {ServerId: t.victim.address.Server, PublicKey: public},
	} {
		answer := &registryv1.RenewResponse{}
		if err := t.ask(c, topology.RenewSubject(t.attacker.address), q, answer); err == nil {
			t.Errorf("%s: credentials %q", name, answer.GetUserJwt())
		}
	}
	return "refused"
}

// ask sends a request and reads the answer, or the error in its place.
func (t *trial) ask(c *nats.Conn, subject string, q, answer proto.Message) error {
	t.Helper()
	data, err := proto.Marshal(q)
	if err != nil {
		return err
	}
	m, err := c.Request(subject, data, 5*time.Second)
	if err != nil {
		return err
	}
	if refused := m.Header.Get(micro.ErrorHeader); refused != "" {
		return errors.New(refused)
	}
	return proto.Unmarshal(m.Data, answer)
}

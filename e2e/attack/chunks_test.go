package attack

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/e2e/sample"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

func init() {
	add(attack{
		name: "read images by a wildcard", as: "server",
		tried:   "* and > written out in direct gets and in requests for chunks, and other malformed subjects",
		stopped: "servers read no stream of images; the catalog reads exact subjects only",
		run:     readByWildcards,
	})
	add(attack{
		name: "read an image of another server", as: "server",
		tried: "requests with its digest", stopped: "the catalog reads the server's document",
		run: readForeignImage,
	})
	add(attack{
		name: "request chunks in another server's name", as: "server",
		tried: "its subject, its answers", stopped: "the permissions of servers",
		run: requestForAnother,
	})
	add(attack{
		name: "fill another server's bell with chunks", as: "server",
		tried:   "its bell as the reply subject of requests",
		stopped: "answers go to the subject of the server that requests",
		run:     answerOnAnothersBell,
	})
	add(attack{
		name: "slow others by downloads", as: "server",
		tried:   "8 connections with 200 requests each for chunks of its own image",
		stopped: "turns, a window and a pace for each server; MaxPending of a connection",
		flood:   download,
	})
	add(attack{
		name: "slow others by refused downloads", as: "server",
		tried:   "requests for random images, and for none, without a pause",
		stopped: "turns and a pace for refusals too; 16 answers a second above the window",
		flood:   refusedDownloads,
	})
}

// blob returns the content of a version of the agent beacon.
func (t *trial) blob(version string) *imagev1.Blob {
	t.Helper()
	for i, err := range t.operator.Images(t.Context(), &catalogv1.ListImagesRequest{}) {
		if err != nil {
			t.Fatal(err)
		}
		if m := i.GetManifest(); m.GetAgent() == sample.Agent && m.GetVersion() == version {
			return m.GetBlob()
		}
	}
	t.Fatalf("no image of version %s", version)
	return nil
}

// chunk is the address of the first chunk of some content, as the attacker requests it.
func (t *trial) chunk(b *imagev1.Blob) topology.ChunkAddress {
	return topology.ChunkAddress{ServerAddress: t.attacker.address, Digest: hex.EncodeToString(b.GetDigest())}
}

// answers subscribes to all that the catalog answers to the attacker.
func (t *trial) answers(c *nats.Conn) *nats.Subscription {
	t.Helper()
	whole := topology.ChunkAnswerSubject(topology.ChunkAddress{ServerAddress: t.attacker.address, Digest: "x"})
	sub, err := c.SubscribeSync(strings.TrimSuffix(whole, "x.0") + "*.*")
	if err == nil {
		err = c.FlushTimeout(5 * time.Second)
	}
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

// obtain makes the attacker's document name an image.
func (t *trial) obtain(version string) {
	t.Helper()
	if err := t.attacker.Executor.Start(); err != nil {
		t.Fatal(err)
	}
	t.ok(t.T, "install", sample.Agent+"@"+version, "--on", t.attacker.Name)
	if err := t.attacker.Executor.Stop(); err != nil {
		t.Fatal(err)
	}
}

func readByWildcards(t *trial) string {
	c := t.connect(t.attacker.login)
	answers := t.answers(c)
	digest := t.chunk(t.blob("1.0.0")).Digest
	for _, get := range []string{"*.0", "*.*", digest + ".*", digest + ".0", ">"} {
		get = "." + strings.TrimSuffix(topology.ChunkSubjects, "*.*") + get
		for _, api := range []string{topology.NodesAPI, topology.ServicesAPI, topology.CoreAPI} {
			if t.denied(c, api+".DIRECT.GET.BLOBS"+get) == nil {
				t.Errorf("the bus let a direct get pass under %s", api)
			}
		}
	}
	own := strings.TrimSuffix(topology.ChunkRequestSubject(t.chunk(nil)), ".0")
	tried := 0
	for _, number := range []string{"*", ">", "0", "-1", "00", "+0", "0x0", "1e9", "99999999999999999999", "_"} {
		for _, d := range []string{"*", ">", digest, strings.ToUpper(digest), digest[:63], digest + "00", "_"} {
			if d == digest && number == "0" {
				continue // well-formed; readForeignImage tries it
			}
			_ = c.PublishRequest(own+d+"."+number, c.NewInbox(), nil)
			tried++
		}
	}
	m, err := answers.NextMsg(2 * time.Second)
	for ; err == nil; m, err = answers.NextMsg(200 * time.Millisecond) {
		if bus.RefusedIn(bus.Message{Header: m.Header, Data: m.Data}) == nil {
			t.Errorf("%d bytes arrived on %s", len(m.Data), m.Subject)
		}
	}
	return fmt.Sprintf("%d direct gets refused by the bus, %d requests without an answer", 15, tried)
}

func readForeignImage(t *trial) string {
	c := t.connect(t.attacker.login)
	answers := t.answers(c)
	for _, version := range []string{"1.0.0", "2.0.0"} {
		if err := c.Publish(topology.ChunkRequestSubject(t.chunk(t.blob(version))), nil); err != nil {
			t.Fatal(err)
		}
		m, err := answers.NextMsg(10 * time.Second)
		if err != nil {
			t.Fatalf("no answer: %v", err)
		}
		refusal := fault.RefusalOf(bus.RefusedIn(bus.Message{Header: m.Header, Data: m.Data}))
		if refusal.GetCode() != code.NotYourImage {
			t.Errorf("version %s: %d bytes, %v", version, len(m.Data), refusal)
		}
	}
	return code.NotYourImage
}

func requestForAnother(t *trial) string {
	c := t.connect(t.attacker.login)
	theirs := topology.ChunkAddress{ServerAddress: t.victim.address, Digest: t.chunk(t.blob("1.0.0")).Digest}
	for _, subject := range []string{topology.ChunkRequestSubject(theirs), topology.ChunkAnswerSubject(theirs)} {
		if t.denied(c, subject) == nil {
			t.Errorf("the bus let a message on %s pass", subject)
		}
	}
	sub, err := c.SubscribeSync(topology.ChunkAnswerSubject(theirs))
	if err == nil {
		_ = c.FlushTimeout(5 * time.Second)
		_, err = sub.NextMsg(500 * time.Millisecond)
	}
	if err == nil || c.LastError() == nil || !strings.Contains(c.LastError().Error(), "Subscription") {
		t.Errorf("the attacker listens to the victim's answers: %v", c.LastError())
	}
	return "refused by the bus"
}

func answerOnAnothersBell(t *trial) string {
	t.obtain("1.0.0")
	victim := t.connect(t.victim.login)
	var heard atomic.Int64
	_, err := victim.Subscribe(topology.BellSubject(t.victim.address), func(m *nats.Msg) {
		if m.Header.Get("Nats-Subject") != topology.DesiredSubject(t.victim.address) { // its own document
			heard.Add(int64(len(m.Data)))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	c := t.connect(t.attacker.login)
	answers := t.answers(c)
	for range 4 {
		err := c.PublishRequest(topology.ChunkRequestSubject(t.chunk(t.blob("1.0.0"))),
			topology.BellSubject(t.victim.address), nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 4 {
		if m, err := answers.NextMsg(10 * time.Second); err != nil || len(m.Data) < 1000 {
			t.Fatalf("the attacker's own chunk did not come: %v", err)
		}
	}
	if err := victim.FlushTimeout(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	if n := heard.Load(); n > 0 {
		t.Errorf("the victim's bell rang with %d bytes", n)
	}
	return "the chunks came to the attacker alone"
}

// download requests one chunk of the attacker's own image on 8 connections, with 200 requests outstanding on each.
func download(ctx context.Context, t *trial) {
	t.obtain("1.0.0")
	subject := topology.ChunkRequestSubject(t.chunk(t.blob("1.0.0")))
	var all sync.WaitGroup
	for range 8 {
		c, err := t.dial(t.attacker.login)
		if err != nil {
			continue // more connections than a server may have
		}
		all.Go(func() {
			defer c.Close()
			outstanding := make(chan struct{}, 200)
			whole := topology.ChunkAnswerSubject(topology.ChunkAddress{ServerAddress: t.attacker.address, Digest: "x"})
			_, err := c.Subscribe(strings.TrimSuffix(whole, "x.0")+"*.*", func(*nats.Msg) {
				select {
				case <-outstanding:
				default:
				}
			})
			if err != nil {
				t.Error(err)
			}
			for ctx.Err() == nil {
				select {
				case outstanding <- struct{}{}:
				case <-time.After(time.Millisecond): // what is dropped is not answered
				}
				_ = c.Publish(subject, nil)
			}
		})
	}
	all.Wait()
}

func refusedDownloads(ctx context.Context, t *trial) {
	own := strings.TrimSuffix(topology.ChunkRequestSubject(t.chunk(nil)), ".0")
	t.sideBySide(ctx, 4, t.attacker.login, func(c *nats.Conn, i int) {
		if i%8 == 0 {
			_ = c.Publish(own+"*.*", nil)
			return
		}
		digest := fmt.Sprintf("%016x%016x%016x%016x", rand.Uint64(), rand.Uint64(), rand.Uint64(), i)
		_ = c.Publish(own+digest+".0", nil)
	})
}

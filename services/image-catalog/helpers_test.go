package catalog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/image"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/manifest"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// run runs a catalog until the test ends or stop is called, and waits until it serves requests.
// An image must be signed by one of the keys, if there are any.
func run(t *testing.T, b *bustest.Bus, keys ...string) (*Catalog, func()) {
	t.Helper()
	c, err := New(Config{
		Conn:  b.Dial(t, ledger.Catalog),
		Store: filepath.Join(t.TempDir(), "views"),
		Log:   zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel),
		Now:   time.Now,
		NewID: ident.New,
		Keys:  keys,
	})
	if err != nil {
		t.Fatal(err)
	}
	stop := bustest.Serve(t, c.Run, c.follower.Serving())
	return c, stop
}

// client calls the catalog as an operator does.
type client struct {
	t    testing.TB
	conn *bus.Conn
}

func newClient(t *testing.T, b *bustest.Bus) *client { return &client{t, b.Dial(t, "ada")} }

func method(name string) protoreflect.MethodDescriptor {
	return catalogv1.File_garrison_catalog_v1_catalog_service_proto.Services().
		ByName("CatalogService").
		Methods().
		ByName(protoreflect.Name(name))
}

func call[R proto.Message](c *client, name string, q proto.Message) (R, error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return bus.Call[R](ctx, c.conn, ledger.Catalog, method(name), q)
}

// must is call for requests that must succeed.
func must[R proto.Message](c *client, name string, q proto.Message) R {
	c.t.Helper()
	r, err := call[R](c, name, q)
	if err != nil {
		c.t.Fatalf("%s: %v", name, err)
	}
	return r
}

// refused checks that a call is refused with a code and a kind.
func refused[R proto.Message](c *client, name string, q proto.Message, kind fault.Kind, code string) *apiv1.Refusal {
	c.t.Helper()
	_, err := call[R](c, name, q)
	r := fault.RefusalOf(err)
	if r.GetCode() != code || !fault.Is(err, kind) {
		c.t.Fatalf("%s: %v (kind %v), want %v %s", name, err, fault.KindOf(err), kind, code)
	}
	return r
}

func (c *client) create(m *imagev1.Manifest) *imagev1.Image {
	c.t.Helper()
	return must[*catalogv1.CreateImageResponse](c, "CreateImage", &catalogv1.CreateImageRequest{Manifest: m}).Image
}

func (c *client) put(m *imagev1.Manifest, n int, data []byte) {
	c.t.Helper()
	must[*catalogv1.PutChunkResponse](c, "PutChunk",
		&catalogv1.PutChunkRequest{ImageId: m.Id, Chunk: uint32(n), Content: data})
}

func (c *client) missing(m *imagev1.Manifest) []uint32 {
	c.t.Helper()
	return must[*catalogv1.MissingChunksResponse](c, "MissingChunks",
		&catalogv1.MissingChunksRequest{ImageId: m.Id}).Chunks
}

func (c *client) get(ref string) *imagev1.Image {
	c.t.Helper()
	return must[*catalogv1.GetImageResponse](c, "GetImage", &catalogv1.GetImageRequest{Image: ref}).Image
}

func (c *client) activate(ref, channel string) *imagev1.Image {
	c.t.Helper()
	return must[*catalogv1.ActivateImageResponse](c, "ActivateImage",
		&catalogv1.ActivateImageRequest{Image: ref, Channel: channel}).Image
}

func (c *client) channel(name string) *channelv1.Channel {
	c.t.Helper()
	r := must[*catalogv1.ListChannelsResponse](c, "ListChannels", &catalogv1.ListChannelsRequest{})
	for _, ch := range r.Channels {
		if ch.Name == name {
			return ch
		}
	}
	c.t.Fatalf("no channel %s", name)
	return nil
}

// upload creates an image and sends all of its chunks.
func (c *client) upload(s sample) {
	c.t.Helper()
	c.create(s.Manifest)
	for n := range s.Manifest.Blob.ChunkDigests {
		c.put(s.Manifest, n, s.chunk(n))
	}
}

// sample is a generated image with its content.
type sample struct {
	*imagev1.Manifest
	content []byte
}

func (s sample) chunk(n int) []byte {
	start := n * int(s.Blob.ChunkSizeBytes)
	return s.content[start : start+image.ChunkLen(s.Blob, n)]
}

// newSample generates an image of some bytes in small chunks; seed decides its content.
func newSample(agent, version, seed string, size int) sample {
	const chunk = 1 << 10
	var content []byte
	sum := sha256.Sum256([]byte(seed))
	for len(content) < size {
		sum = sha256.Sum256(sum[:])
		content = append(content, sum[:]...)
	}
	content = content[:size]
	whole := sha256.Sum256(content)
	b := &imagev1.Blob{
		Digest:            whole[:],
		SizeBytes:         uint64(size),
		ChunkSizeBytes:    chunk,
		UnpackedSizeBytes: uint64(size),
		Entries:           1,
	}
	for at := 0; at < size; at += chunk {
		d := sha256.Sum256(content[at:min(at+chunk, size)])
		b.ChunkDigests = append(b.ChunkDigests, d[:])
	}
	m := &imagev1.Manifest{
		Agent: agent, Version: version, Kind: agentv1.Kind_KIND_FILES,
		Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"},
		Blob:     b, Description: "generated",
	}
	m.Id = manifest.ID(m)
	return sample{m, content}
}

// built packs a real directory into an image file.
func built(t *testing.T, size int) *image.File {
	t.Helper()
	dir := t.TempDir()
	s := newSample("x", "1.0.0", "built", size)
	for name, text := range map[string][]byte{
		"garrison.yaml": []byte("agent: cn-agent\nversion: 1.2.3\nkind: daemon\nos: linux\narch: amd64\n" +
			"run: {command: run}\n"),
		"run": []byte("#!/bin/sh\n"), "data": s.content,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(t.TempDir(), "x.gimg")
	if _, err := image.Build(t.Context(), image.BuildOptions{Dir: dir, Out: out}); err != nil {
		t.Fatal(err)
	}
	f, err := image.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// damage replaces a stored chunk with other bytes.
func damage(t *testing.T, conn *bus.Conn, m *imagev1.Manifest, n int) {
	t.Helper()
	subject := topology.BlobSubject(m.Blob.Digest, n)
	if err := conn.Purge(t.Context(), topology.Blobs, subject); err != nil {
		t.Fatal(err)
	}
	wrong := bytes.Repeat([]byte{7}, image.ChunkLen(m.Blob, n))
	if _, err := conn.PublishDurable(t.Context(), bus.Durable{Subject: subject, Data: wrong}); err != nil {
		t.Fatal(err)
	}
}

// facts reads every fact in the ledger about the catalog's nouns, as NOUN.NAME.
func facts(t *testing.T, conn *bus.Conn) []string {
	t.Helper()
	msgs, err := conn.DirectGetFrom(t.Context(), topology.Ledger, ledger.AllSubjects, 1, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range msgs {
		f, err := ledger.Decode(m.Subject, m.Header, m.Data, m.Sequence)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(f.Noun)+"."+f.Name())
	}
	return out
}

func imageID(s sample) string { return manifest.ID(s.Manifest) }

package catalog

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/image"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/manifest"
	"github.com/garrison-fleet/garrison/pkg/page"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
)

// listed returns an image file of a directory whose SBOM is a text.
func listed(t *testing.T, version, text string) *image.File {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"garrison.yaml":      "agent: a\nversion: " + version + "\nkind: files\nos: linux\narch: amd64\n",
		"garrison-sbom.json": text,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(t.TempDir(), "a.gimg")
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

const left = `{"bomFormat": "CycloneDX", "specVersion": "1.4", "components": [
	{"name": "left", "purl": "pkg:npm/left@1.0.0"}]}`

func (c *client) uploadFile(f *image.File) {
	c.t.Helper()
	m := f.Manifest()
	c.create(m)
	for n := range f.Chunks() {
		data, err := f.Chunk(n)
		if err != nil {
			c.t.Fatal(err)
		}
		c.put(m, n, data)
	}
}

func (c *client) exposed(subject string) *catalogv1.ListExposedResponse {
	c.t.Helper()
	return must[*catalogv1.ListExposedResponse](c, "ListExposed", &catalogv1.ListExposedRequest{Subject: subject})
}

// importOne imports one advisory about left, in two parts of which the second one is empty.
func (c *client) importOne(source, id string) *catalogv1.AdvisorySource {
	c.t.Helper()
	q := &catalogv1.ImportAdvisoriesRequest{Source: source, Parts: 2, Advisories: []*catalogv1.Advisory{{
		Id: id, Affected: []*catalogv1.Affected{{Ecosystem: "npm", Name: "left", Versions: []string{"1.0.0"}}},
	}}}
	r := must[*catalogv1.ImportAdvisoriesResponse](c, "ImportAdvisories", q)
	q = &catalogv1.ImportAdvisoriesRequest{Source: source, Parts: 2, Part: 1, Upload: r.Upload}
	return must[*catalogv1.ImportAdvisoriesResponse](c, "ImportAdvisories", q).Source
}

func TestASBOMIsReadAgainAfterAStart(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	_, stop := run(t, b)
	c := newClient(t, b)
	f := listed(t, "1.0.0", left)
	c.uploadFile(f)
	c.activate(f.Manifest().Id, "")
	if r := c.exposed("left@<2"); r.ExposedImages != 1 || r.Images != 1 || r.Exposed[0].Package != "left" {
		t.Fatalf("%v", r)
	}
	if have := c.importOne("npm", "GHSA-aaaa-bbbb-cccc"); have.Advisories != 1 {
		t.Fatalf("%v", have)
	}
	stop()
	_, stop = run(t, b)
	polltest.Eventually(t, "the SBOM is read",
		func() bool { return c.exposed("GHSA-aaaa-bbbb-cccc").ExposedImages == 1 })
	stop()

	// Its bytes are away: it is counted as unread, and not as clean.
	conn := b.Dial(t, ledger.Catalog)
	if err := conn.Purge(t.Context(), topology.Blobs, topology.BlobSubjects(f.Manifest().Blob.Digest)); err != nil {
		t.Fatal(err)
	}
	run(t, b)
	if r := c.exposed("left"); r.ExposedImages != 0 || r.Unread != 1 {
		t.Fatalf("%v", r)
	}
}

// packed returns an image whose archive has one file. No build checked it.
func packed(t *testing.T, name, text string) sample {
	t.Helper()
	var plain bytes.Buffer
	w := tar.NewWriter(&plain)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(text))})
	if _, e := w.Write([]byte(text)); err != nil || e != nil || w.Close() != nil {
		t.Fatal(err, e)
	}
	// A frame of zstd with one block that is not compressed.
	frame := binary.LittleEndian.AppendUint32([]byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0}, uint32(plain.Len()))
	block := binary.LittleEndian.AppendUint32(nil, uint32(plain.Len())<<3|1)
	frame = append(append(frame, block[:3]...), plain.Bytes()...)
	whole := sha256.Sum256(frame)
	s := newSample("a", "1.0.0", "", 0)
	s.content = frame
	s.Blob.Digest, s.Blob.ChunkDigests, s.Blob.ChunkSizeBytes = whole[:], [][]byte{whole[:]}, 1<<16
	s.Blob.SizeBytes, s.Blob.UnpackedSizeBytes = uint64(len(frame)), uint64(len(text))
	s.Manifest.Id = manifest.ID(s.Manifest)
	return s
}

// A cursor is made by the caller, who may write anything in it.
func TestACursorThatNamesNoRowIsRefused(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	run(t, b)
	c := newClient(t, b)
	c.uploadFile(listed(t, "1.0.0", left))
	for _, key := range []string{"-5", "x", "99999999999"} {
		q := &catalogv1.ListExposedRequest{Subject: "left", Page: &apiv1.Page{Limit: 1}}
		q.Page.Cursor = page.Cursor(q, key)
		refused[*catalogv1.ListExposedResponse](c, "ListExposed", q, fault.Invalid, code.Invalid)
	}
}

func TestAnImageWithABadSBOMIsNotActivated(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	run(t, b)
	c := newClient(t, b)
	s := packed(t, "garrison-sbom.json", `{"bomFormat": "CycloneDX", "specVersion": "1.4", "components": [{}]}`)
	c.upload(s)
	r := refused[*catalogv1.ActivateImageResponse](c, "ActivateImage",
		&catalogv1.ActivateImageRequest{Image: s.Manifest.Id}, fault.Invalid, code.BadSbom)
	if want := "components[0].name is missing"; !strings.Contains(r.Message, want) {
		t.Errorf("%s, want %s", r.Message, want)
	}
	r = refused[*catalogv1.ListExposedResponse](c, "ListExposed", &catalogv1.ListExposedRequest{Subject: "CVE-2024-1"},
		fault.NotFound, code.UnknownAdvisory)
	if want := "no advisory has the id CVE-2024-1; the catalog has 0"; r.Message != want {
		t.Errorf("%s, want %s", r.Message, want)
	}
}

func TestAnImportReplacesTheSourceAndOneThatStopsHalfwayChangesNothing(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	run(t, b)
	other, _ := run(t, b) // a replica
	c := newClient(t, b)
	c.importOne("npm", "GHSA-aaaa-bbbb-cccc")
	c.importOne("npm", "GHSA-aaaa-bbbb-dddd")
	must[*catalogv1.ImportAdvisoriesResponse](c, "ImportAdvisories", &catalogv1.ImportAdvisoriesRequest{
		Source: "npm", Parts: 2, Advisories: []*catalogv1.Advisory{{Id: "X", Affected: []*catalogv1.Affected{{}}}},
	})
	known, err := other.exposed.advisories.load(t.Context())
	if err != nil || len(known.Sources()) != 1 || known.Sources()[0].Advisories != 1 {
		t.Fatalf("%v, %v", known.Sources(), err)
	}
	if _, _, err := known.Ask("GHSA-aaaa-bbbb-dddd"); err != nil {
		t.Error(err)
	}
	if _, _, err := known.Ask("GHSA-aaaa-bbbb-cccc"); fault.RefusalOf(err).GetCode() != code.UnknownAdvisory {
		t.Errorf("%v", err)
	}
	for _, q := range []*catalogv1.ImportAdvisoriesRequest{
		{Source: "A b", Parts: 1}, {Source: "a", Parts: maxAdvisoryParts + 1},
		{Source: "a", Parts: 1, Advisories: []*catalogv1.Advisory{{Id: "X"}}},
	} {
		refused[*catalogv1.ImportAdvisoriesResponse](c, "ImportAdvisories", q, fault.Invalid, code.BadAdvisory)
	}
	for _, q := range []*catalogv1.ImportAdvisoriesRequest{
		{Source: "a"}, {Source: "a", Parts: 1, Part: 1, Upload: "1"}, {Source: "a", Parts: 2, Part: 1},
		{Source: "a", Parts: 2, Part: 1, Upload: "x"},
	} {
		refused[*catalogv1.ImportAdvisoriesResponse](c, "ImportAdvisories", q, fault.Invalid, code.Malformed)
	}
	refused[*catalogv1.ImportAdvisoriesResponse](c, "ImportAdvisories",
		&catalogv1.ImportAdvisoriesRequest{Source: "a", Parts: 2, Part: 1, Upload: "7"},
		fault.Conflict, code.Incomplete)
}

package allinone_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/image"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// archive is an image and its archive.
type archive struct {
	file     string
	manifest *imagev1.Manifest
	content  string
	path     string
}

// newArchive builds an image whose archive has some chunks.
func newArchive(t *testing.T, chunks int) archive {
	t.Helper()
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "a.gimg")
	for name, text := range map[string]string{
		"garrison.yaml": "agent: a\nversion: 1.0.0\nkind: files\nos: linux\narch: amd64\n",
		"data":          noise((chunks-1)*topology.ChunkSize + 1000),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m, err := image.Build(t.Context(), image.BuildOptions{Dir: dir, Out: file})
	if err != nil {
		t.Fatal(err)
	}
	f, err := image.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var content strings.Builder
	for n := range f.Chunks() {
		part, err := f.Chunk(n)
		if err != nil {
			t.Fatal(err)
		}
		content.Write(part)
	}
	return archive{file, m, content.String(), "/images/" + hex.EncodeToString(m.GetBlob().GetDigest())}
}

// noise returns bytes that do not compress.
func noise(size int) string {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b)
	return string(b)
}

// know makes an image known to the catalog, without its content.
func (s *site) know(a archive, token string) {
	s.Helper()
	text, err := protojson.Marshal(a.manifest)
	if err != nil {
		s.Fatal(err)
	}
	s.want(s.ask("POST", catalogPath+"CreateImage", token, fmt.Sprintf(`{"manifest":%s}`, text)), http.StatusOK,
		a.manifest.GetId())
}

func TestAnArchiveIsDownloadedWholeAndInPart(t *testing.T) {
	t.Parallel()
	s, a := newSite(t), newArchive(t, 4)
	ann, eve := s.user("ann", topology.Operator), s.user("eve", topology.Viewer).Bearer()
	if _, err := s.client(ann).Import(t.Context(), a.file, nil); err != nil {
		t.Fatal(err)
	}
	whole := s.ask("GET", a.path, eve, "")
	digest := sha256.Sum256([]byte(whole.body))
	tag := `"` + hex.EncodeToString(digest[:]) + `"`
	if whole.status != http.StatusOK || whole.body != a.content || whole.header.Get("Etag") != tag ||
		!strings.HasPrefix(whole.header.Get("Cache-Control"), "private") {
		t.Errorf("answered %d %v with %d bytes, want %d", whole.status, whole.header, len(whole.body), len(a.content))
	}
	size := fmt.Sprint(len(a.content))
	if h := s.ask("HEAD", a.path, eve, ""); h.header.Get("Content-Length") != size || h.body != "" {
		t.Errorf("HEAD answers %v, want the length %s", h.header, size)
	}
	s.want(s.ask("GET", a.path, eve, "", "If-None-Match", tag), http.StatusNotModified, "")

	const from, to = topology.ChunkSize - 10, 2*topology.ChunkSize + 10 // of three chunks
	part := s.ask("GET", a.path, eve, "", "Range", fmt.Sprintf("bytes=%d-%d", from, to), "If-Range", tag)
	if part.status != http.StatusPartialContent || part.body != a.content[from:to+1] {
		t.Errorf("a range is answered %d with %d bytes", part.status, len(part.body))
	}
	if two := s.ask("GET", a.path, eve, "", "Range", "bytes=0-1,9-10"); two.body != a.content {
		t.Errorf("two ranges are answered %d with %d bytes, want the whole", two.status, len(two.body))
	}
	s.want(s.ask("GET", a.path, eve, "", "Range", fmt.Sprintf("bytes=%d-", len(a.content))),
		http.StatusRequestedRangeNotSatisfiable, "")
	s.want(s.ask("GET", "/images/"+strings.Repeat("0", 64), eve, ""), http.StatusNotFound, code.NoMatch)
	s.want(s.ask("GET", "/images/latest", eve, ""), http.StatusBadRequest, "not a digest")
	s.want(s.ask("GET", a.path, "", ""), http.StatusUnauthorized, code.LoginRefused)
	s.want(s.ask("GET", a.path, s.user("vm", topology.Reporter).Bearer(), ""), http.StatusForbidden, code.Denied)
}

func TestAnUploadStoresWhatTheCatalogLacksAndNothingElse(t *testing.T) {
	t.Parallel()
	s, a := newSite(t), newArchive(t, 4)
	ann, eve := s.user("ann", topology.Operator).Bearer(), s.user("eve", topology.Viewer).Bearer()
	s.want(s.ask("PUT", a.path, ann, a.content), http.StatusNotFound, code.NoMatch)
	s.know(a, ann)
	s.want(s.ask("GET", a.path, ann, ""), http.StatusConflict, code.Incomplete)
	s.want(s.ask("PUT", a.path, eve, a.content), http.StatusForbidden, code.Denied)
	s.want(s.ask("PUT", a.path, ann, a.content[1:]), http.StatusBadRequest, code.WrongDigest)
	s.want(s.ask("PUT", a.path, ann, a.content, "Content-Range", "bytes 0-1/2"), http.StatusBadRequest, "Content-Range")
	s.want(s.ask("PUT", a.path, ann, a.content, "Garrison-Dry-Run", "1"), http.StatusBadRequest, "Dry-Run")
	if n := s.missing(a); n != 4 {
		t.Errorf("%d chunks are missing after refused uploads, want 4", n)
	}
	damaged := a.content[:len(a.content)-1] + "x"
	s.want(s.ask("PUT", a.path, ann, damaged), http.StatusBadRequest, code.WrongDigest)
	if n := s.missing(a); n != 1 {
		t.Errorf("%d chunks are missing after an upload whose last one was damaged, want 1", n)
	}
	s.want(s.ask("PUT", a.path, ann, a.content), http.StatusCreated, "")
	s.want(s.ask("PUT", a.path, ann, a.content), http.StatusNoContent, "")
	s.want(s.ask("GET", a.path, eve, ""), http.StatusOK, a.content)
	s.want(s.ask("POST", catalogPath+"ActivateImage", ann, fmt.Sprintf(`{"image":%q}`, a.manifest.GetId())),
		http.StatusOK, "STATE_ACTIVE")
}

// missing returns how many chunks the catalog lacks of an archive.
func (s *site) missing(a archive) int {
	s.Helper()
	r := s.ask("POST", catalogPath+"MissingChunks", s.user("ann", topology.Operator).Bearer(),
		fmt.Sprintf(`{"imageId":%q}`, a.manifest.GetId()))
	return strings.Count(r.body, ",") + strings.Count(r.body, "[")
}

func TestAnArchiveThatIsPurgedMeanwhileNeverLooksComplete(t *testing.T) {
	t.Parallel()
	s, a := newSite(t), newArchive(t, 40) // more than the buffers of a connection hold
	ann := s.user("ann", topology.Operator)
	if _, err := s.client(ann).Import(t.Context(), a.file, nil); err != nil {
		t.Fatal(err)
	}
	q, err := http.NewRequestWithContext(t.Context(), "GET", s.url()+a.path, nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+ann.Bearer())
	before := make([]byte, 1)
	body := s.open(q)
	if _, err := io.ReadFull(body, before); err != nil {
		t.Fatal(err)
	}
	s.want(s.ask("POST", catalogPath+"DeleteImage", ann.Bearer(), fmt.Sprintf(`{"image":%q}`, a.manifest.GetId())),
		http.StatusOK, "{}")
	if rest, err := io.ReadAll(body); err == nil {
		t.Errorf("%d of %d bytes came, without an error", 1+len(rest), len(a.content))
	}
}

// open sends a request and returns the body of its answer.
func (s *site) open(q *http.Request) io.Reader {
	s.Helper()
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = r.Body.Close() })
	return r.Body
}

func TestAUserHasAFewTransfersAtOnceAndOthersHaveTheirOwn(t *testing.T) {
	t.Parallel()
	s, a := newSite(t), newArchive(t, 4)
	ann, bob := s.user("ann", topology.Operator).Bearer(), s.user("bob", topology.Operator).Bearer()
	s.know(a, ann)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	patient := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}}
	for range 8 {
		body, send := io.Pipe()
		q, err := http.NewRequestWithContext(ctx, "PUT", s.url()+a.path, body)
		if err != nil {
			t.Fatal(err)
		}
		q.ContentLength = int64(len(a.content))
		q.Header.Set("Authorization", "Bearer "+ann)
		q.Header.Set("Expect", "100-continue") // the body is asked for once the transfer has its turn
		go func() {
			if r, err := patient.Do(q); err == nil {
				_ = r.Body.Close()
			}
		}()
		if _, err := io.WriteString(send, a.content[:100]); err != nil {
			t.Fatal(err)
		}
	}
	s.want(s.ask("PUT", a.path, ann, a.content), http.StatusServiceUnavailable, code.Busy)
	s.want(s.ask("PUT", a.path, bob, a.content), http.StatusCreated, "")
}

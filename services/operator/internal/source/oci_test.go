package source

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
)

// layers are the files of a site as layers of a manifest.
func (s *site) layers(t *testing.T) (out []v1.Descriptor, content map[string][]byte) {
	t.Helper()
	content = map[string][]byte{}
	for _, name := range []string{indexName, fileName(s.index.Images[0])} {
		data, err := os.ReadFile(filepath.Join(s.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		is := digest.NewDigestFromEncoded(digest.SHA256, hex.EncodeToString(sum[:]))
		content[is.String()] = data
		out = append(out, v1.Descriptor{
			MediaType: imageType, Digest: is, Size: int64(len(data)),
			Annotations: map[string]string{v1.AnnotationTitle: name},
		})
	}
	return out, content
}

// registry serves a site as an artifact, as the change has it, and returns the place. blob answers for a file.
func (s *site) registry(
	t *testing.T, change func(*v1.Manifest), blob func(data []byte, w http.ResponseWriter, r *http.Request),
) place {
	t.Helper()
	m := v1.Manifest{MediaType: v1.MediaTypeImageManifest, ArtifactType: artifactType}
	m.SchemaVersion = 2
	var content map[string][]byte
	m.Layers, content = s.layers(t)
	change(&m)
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, isBlob := strings.CutPrefix(r.URL.Path, "/v2/team/site/blobs/")
		switch {
		case r.URL.Path == "/v2/team/site/manifests/stable":
			w.Header().Set("Content-Type", v1.MediaTypeImageManifest)
			w.Header().Set("Content-Length", strconv.Itoa(len(text)))
			_, _ = w.Write(text)
		case isBlob && content[name] != nil:
			blob(content[name], w, r)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	at, err := placeOf(artifactScheme + strings.TrimPrefix(server.URL, "http://") + "/team/site:stable")
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func whole(data []byte, w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) }

func TestAnArtifactThatIsNoSourceIsRefusedByName(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*v1.Manifest)
		says   string
	}{
		"as published":          {func(*v1.Manifest) {}, ""},
		"of another kind":       {func(m *v1.Manifest) { m.ArtifactType = "text/plain" }, `another kind, "text/plain"`},
		"without index":         {func(m *v1.Manifest) { m.Layers = m.Layers[1:] }, "has no index.json"},
		"with a path as digest": {func(m *v1.Manifest) { m.Layers[1].Digest = "../../admin" }, `digest "../../admin"`},
		"of a wrong size":       {func(m *v1.Manifest) { m.Layers[0].Size++ }, "mismatch"},
		"of 5 MiB": {func(m *v1.Manifest) {
			m.Annotations = map[string]string{"x": strings.Repeat("x", maxManifest)}
		}, "exceeds"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			err := s.read(t, s.registry(t, c.change, whole))
			want := code.BadSource
			if c.says == "" {
				want = ""
			}
			wantCode(t, err, want, c.says)
		})
	}
}

// A download continues where the registry knows ranges, and begins anew where it does not.
func TestADownloadFromARegistryThatWasInterruptedIsContinued(t *testing.T) {
	t.Parallel()
	for _, knows := range []string{"ranges", "nothing", "ranges, it says"} {
		t.Run(knows, func(t *testing.T) {
			t.Parallel()
			s, dir := newSite(t), t.TempDir()
			half := len(s.file) / 2
			keep := func(*v1.Manifest) {}
			_, err := s.take(t.Context(), s.registry(t, keep, func(d []byte, w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", strconv.Itoa(len(d)))
				_, _ = w.Write(d[:half])
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}), dir)
			wantCode(t, err, code.NotAnImage, "tools@1.0.0 ends after")
			if have := left(t, dir); !slices.Equal(have, []int64{int64(half)}) {
				t.Fatalf("files of %v bytes, want one of %d", have, half)
			}
			asked := make(chan string, 8)
			back := s.registry(t, keep, func(d []byte, w http.ResponseWriter, r *http.Request) {
				asked <- r.Header.Get("Range")
				if knows == "ranges" {
					http.ServeContent(w, r, "", now, strings.NewReader(string(d)))
					return
				}
				if knows != "nothing" {
					w.Header().Set("Accept-Ranges", "bytes")
				}
				whole(d, w, r)
			})
			path, err := s.take(t.Context(), back, dir)
			if err != nil {
				t.Fatal(err)
			}
			if have, err := os.ReadFile(path); err != nil || string(have) != string(s.file) {
				t.Errorf("another file than was published: %v", err)
			}
			close(asked)
			var last string
			for last = range asked {
			}
			if strings.HasPrefix(last, "bytes="+strconv.Itoa(half)+"-") != (knows == "ranges") {
				t.Errorf("asked for %q last", last)
			}
		})
	}
}

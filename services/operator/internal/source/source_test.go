package source

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/image"
	"github.com/garrison-fleet/garrison/pkg/seal"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	sourcev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/source/v1"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// site is a source in a directory with one image, signed by a key of its own.
type site struct {
	dir    string
	source *sourcev1.Source
	seed   []byte
	index  *sourcev1.Index
	file   []byte
}

func newSite(t *testing.T) *site {
	t.Helper()
	public, seed, err := seal.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	from, dir := t.TempDir(), t.TempDir()
	recipe := "agent: tools\nversion: 1.0.0\nkind: files\nos: linux\narch: amd64\n"
	for name, text := range map[string]string{"garrison.yaml": recipe, "hello": strings.Repeat("hello\n", 1000)} {
		if err := os.WriteFile(filepath.Join(from, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(t.TempDir(), "tools.gimg")
	m, err := image.Build(t.Context(), image.BuildOptions{Dir: from, Out: out})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{dir: dir, seed: seed, source: &sourcev1.Source{Name: "site", Location: dir, Keys: []string{public}}}
	if s.file, err = os.ReadFile(out); err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(s.file)
	s.index = &sourcev1.Index{
		PublishedAt: timestamppb.New(now), ExpiresAt: timestamppb.New(now.Add(time.Hour)),
		Images: []*sourcev1.Listed{{
			ImageId: m.GetId(), Agent: "tools", Version: "1.0.0", Platform: m.GetPlatform(),
			FileDigest: digest[:], SizeBytes: uint64(len(s.file)),
		}},
	}
	s.write(t)
	return s
}

// write writes the index and the image as they are.
func (s *site) write(t *testing.T) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(s.dir, imagesDir), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, fileName(s.index.Images[0])), s.file, 0o600); err != nil {
		t.Fatal(err)
	}
	data, err := sign(s.index, s.seed)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, indexName), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (s *site) read(t *testing.T, at place) error {
	t.Helper()
	_, err := readIndex(t.Context(), at, s.source, now)
	return err
}

func wantCode(t *testing.T, err error, want, says string) {
	t.Helper()
	if have := fault.RefusalOf(err).GetCode(); have != want || err != nil && !strings.Contains(err.Error(), says) {
		t.Errorf("%v; want %q with %q", err, want, says)
	}
}

func TestAnIndexThatMustNotBeTrustedIsRefusedByName(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change     func(*testing.T, *site)
		code, says string
	}{
		"as published": {func(*testing.T, *site) {}, "", ""},
		"signed by another key": {func(t *testing.T, s *site) {
			s.source.Keys = newSite(t).source.Keys
		}, code.UnknownSigner, "signed the index"},
		"changed after it was signed": {func(t *testing.T, s *site) {
			path := filepath.Join(s.dir, indexName)
			signed := &sourcev1.SignedIndex{}
			data, err := os.ReadFile(path)
			if err != nil || protojson.Unmarshal(data, signed) != nil {
				t.Fatal(err)
			}
			signed.Index = append(signed.Index, ' ')
			if data, err = protojson.Marshal(signed); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}, code.UnknownSigner, "signed the index"},
		"expired": {func(t *testing.T, s *site) {
			s.index.ExpiresAt = timestamppb.New(now)
			s.write(t)
		}, code.SourceExpired, "expired at 2026-01-02"},
		"older than the one before": {func(_ *testing.T, s *site) {
			s.source.Last = &sourcev1.Synced{PublishedAt: timestamppb.New(now.Add(time.Second))}
		}, code.BadSource, "before the one that was taken last"},
		"of the future": {func(t *testing.T, s *site) {
			s.index.PublishedAt = timestamppb.New(now.Add(11 * time.Minute))
			s.write(t)
		}, code.BadSource, "in the future"},
		"without times": {func(t *testing.T, s *site) {
			s.index.PublishedAt = nil
			s.write(t)
		}, code.BadSource, "no valid times"},
		"with an image without a digest": {func(t *testing.T, s *site) {
			s.index.Images = append(s.index.Images, &sourcev1.Listed{Agent: "other"})
			s.write(t)
		}, code.BadSource, "other@"},
		"of another form": {func(t *testing.T, s *site) {
			if err := os.WriteFile(filepath.Join(s.dir, indexName), []byte("<html>"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, code.BadSource, "is not an index"},
		"that is missing": {func(_ *testing.T, s *site) { s.dir += "-gone" }, code.BadSource, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			c.change(t, s)
			wantCode(t, s.read(t, directory(s.dir)), c.code, c.says)
		})
	}
}

// serve serves a source over HTTP, behind a handler that may do otherwise.
func (s *site) serve(t *testing.T, handle func(files http.Handler, w http.ResponseWriter, r *http.Request)) place {
	t.Helper()
	files := http.FileServer(http.Dir(s.dir))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handle(files, w, r) }))
	t.Cleanup(server.Close)
	at, err := placeOf(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func asItIs(files http.Handler, w http.ResponseWriter, r *http.Request) { files.ServeHTTP(w, r) }

// endless answers with more bytes than any file has, until the other side goes away.
func endless(_ http.Handler, w http.ResponseWriter, _ *http.Request) {
	for block := make([]byte, 1<<16); ; {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}

func TestAWebServerThatMisbehavesIsRefusedByName(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handle     func(http.Handler, http.ResponseWriter, *http.Request)
		code, says string
	}{
		"as it is":         {asItIs, "", ""},
		"an endless index": {endless, code.TooLarge, "index.json has more than"},
		"redirects in a circle": {func(_ http.Handler, w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		}, code.BadSource, "more than 5 redirects"},
		"an error": {func(_ http.Handler, w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no", http.StatusForbidden)
		}, code.BadSource, "status 403"},
		"an index that ends in the middle": {func(_ http.Handler, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte(`{"index":`))
		}, code.BadSource, "ends after 9 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			wantCode(t, s.read(t, s.serve(t, c.handle)), c.code, c.says)
		})
	}
}

func TestAnAnswerWithoutABytePassesItsTimeAndIsGivenUp(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	at := s.serve(t, func(_ http.Handler, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}).(web)
	at.idle = time.Millisecond
	wantCode(t, s.read(t, at), code.BadSource, "ends after 0 bytes")
}

func TestARedirectFromHTTPSToHTTPIsRefused(t *testing.T) {
	secure, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://a/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if checkRedirect(plain, []*http.Request{secure}) == nil || checkRedirect(secure, []*http.Request{plain}) != nil {
		t.Error("want https to http refused, and http to https followed")
	}
}

// take downloads the image of a site.
func (s *site) take(ctx context.Context, at place, dir string) (string, error) {
	return download(ctx, at, s.index.Images[0], dir, func(uint64) {})
}

func left(t *testing.T, dir string) (sizes []int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, info.Size())
	}
	return sizes
}

func TestAFileThatIsNotTheOneOfTheIndexIsRefusedByNameAndLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*site)
		handle func(http.Handler, http.ResponseWriter, *http.Request)
		code   string
	}{
		"as published": {func(*site) {}, asItIs, ""},
		"with another byte": {func(s *site) {
			s.file[len(s.file)-1]++
		}, asItIs, code.WrongDigest},
		"endless":          {func(*site) {}, endless, code.TooLarge},
		"of another image": {func(s *site) { s.index.Images[0].Version = "2.0.0" }, asItIs, code.WrongID},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, dir := newSite(t), t.TempDir()
			c.change(s)
			s.write(t)
			path, err := s.take(t.Context(), s.serve(t, c.handle), dir)
			wantCode(t, err, c.code, "tools@")
			if files := left(t, dir); err != nil && len(files) != 0 || err == nil && path == "" {
				t.Errorf("left behind: %v", files)
			}
		})
	}
}

func TestASourceThatGoesAwayMidwayIsContinuedWhereItStopped(t *testing.T) {
	t.Parallel()
	s, dir := newSite(t), t.TempDir()
	half := len(s.file) / 2
	away := s.serve(t, func(_ http.Handler, w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(s.file[:half])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	_, err := s.take(t.Context(), away, dir)
	wantCode(t, err, code.NotAnImage, "tools@1.0.0 ends after")
	if have := left(t, dir); !slices.Equal(have, []int64{int64(half)}) {
		t.Fatalf("files of %v bytes, want one of %d", have, half)
	}
	asked := make(chan string, 1)
	back := s.serve(t, func(files http.Handler, w http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("Range")
		files.ServeHTTP(w, r)
	})
	path, err := s.take(t.Context(), back, dir)
	if err != nil {
		t.Fatal(err)
	}
	if have, want := <-asked, "bytes="+strconv.Itoa(half)+"-"; have != want {
		t.Errorf("asked for %q, want %q", have, want)
	}
	if want := hex.EncodeToString(s.index.Images[0].FileDigest) + image.Extension; filepath.Base(path) != want {
		t.Errorf("%s, want %s", path, want)
	}
}

func TestAFileThatCannotBeWrittenIsNotTakenForWhole(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	full, err := os.Open(filepath.Join(s.dir, indexName)) // not for writing
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = full.Close() }()
	err = copyTo(full, bytes.NewReader(s.file), s.index.Images[0], 0, func(uint64) {})
	if _, ok := errors.AsType[*fs.PathError](err); !ok {
		t.Errorf("%v, want the error of the file", err)
	}
}

// drops is a place whose index comes a byte a second, and never ends.
type drops struct{ context.Context }

func (d drops) open(ctx context.Context, _ string, offset int64) (io.ReadCloser, int64, error) {
	return io.NopCloser(drops{ctx}), offset, nil
}

func (d drops) Read(b []byte) (int, error) {
	select {
	case <-d.Done():
		return 0, context.Cause(d)
	case <-time.After(time.Second):
		return copy(b, " "), nil
	}
}

func TestAnIndexThatComesAByteASecondIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := readIndex(t.Context(), drops{}, &sourcev1.Source{Name: "site"}, now)
		wantCode(t, err, code.BadSource, "deadline exceeded")
	})
}

func TestAnImageThatComesAByteASecondIsGivenUpAndContinuedLater(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := &sourcev1.Listed{Agent: "a", Version: "1.0.0", FileDigest: []byte{1}, SizeBytes: leastRate}
		_, err := download(t.Context(), drops{}, l, dir, func(uint64) {})
		wantCode(t, err, code.NotAnImage, "of 16384 bytes: context deadline exceeded")
	})
	if kept, err := os.ReadFile(filepath.Join(dir, "01.gimg")); len(kept) < 50 {
		t.Errorf("%d bytes are kept for the next try (%v)", len(kept), err)
	}
}

func TestTheHighestVersionsOfEachAgentAndPlatformAreChosenLowestFirst(t *testing.T) {
	of := func(agent, version, arch string, channels ...string) *sourcev1.Listed {
		return &sourcev1.Listed{
			Agent: agent, Version: version, Platform: &serverv1.Platform{Os: "linux", Arch: arch}, Channels: channels,
		}
	}
	all := []*sourcev1.Listed{
		of("b", "1.0.0", "amd64", "stable"), of("a", "1.10.0", "amd64", "stable"), of("a", "1.9.0", "amd64", "stable"),
		of("a", "2.0.0", "amd64", "dev"), of("a", "1.2.0", "amd64", "stable"), of("a", "1.0.0", "arm64", "stable"),
	}
	var have []string
	for _, l := range choose(all, "stable", 2) {
		have = append(have, l.Agent+" "+l.Version+" "+l.Platform.Arch)
	}
	want := []string{"a 1.0.0 arm64", "a 1.9.0 amd64", "a 1.10.0 amd64", "b 1.0.0 amd64"}
	if !slices.Equal(have, want) {
		t.Errorf("%v, want %v", have, want)
	}
}

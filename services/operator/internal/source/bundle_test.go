package source

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	sourcev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/source/v1"
)

// sync reads a site's bundle as a sync does before it imports anything.
func (s *site) sync(t *testing.T, path string) error {
	t.Helper()
	at, err := placeOf(path)
	if err != nil {
		return err
	}
	if err := s.read(t, at); err != nil {
		return err
	}
	return at.(*bundle).checkAll(t.Context(), s.index.Images)
}

// with adds an entry to a tar archive.
func with(t *testing.T, archive []byte, h tar.Header) []byte {
	t.Helper()
	var more bytes.Buffer
	w := tar.NewWriter(&more)
	if err := w.WriteHeader(&h); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return append(more.Bytes()[:512:512], archive...)
}

func TestABundleThatIsNotWhatWasPublishedIsRefusedAsAWhole(t *testing.T) {
	t.Parallel()
	const file = tar.TypeReg
	for name, c := range map[string]struct {
		change     func(t *testing.T, s *site, b []byte) []byte
		code, says string
	}{
		"as published": {func(_ *testing.T, _ *site, b []byte) []byte { return b }, "", ""},
		"cut within an image": {
			func(_ *testing.T, _ *site, b []byte) []byte { return b[:len(b)-1500] }, code.BadSource, "damaged after",
		},
		"cut within the index": {
			func(_ *testing.T, _ *site, b []byte) []byte { return b[:600] }, code.BadSource, "damaged after",
		},
		"empty": {func(*testing.T, *site, []byte) []byte { return nil }, code.BadSource, "has no index.json"},
		"with another byte in an image": {func(_ *testing.T, s *site, b []byte) []byte {
			b[bytes.Index(b, s.file)+len(s.file)/2] ^= 1
			return b
		}, code.WrongDigest, "the file of tools@1.0.0 has digest"},
		"with another byte in the index": {func(_ *testing.T, _ *site, b []byte) []byte {
			b[bytes.Index(b, []byte(`"index"`))+20] ^= 1
			return b
		}, code.UnknownSigner, "signed the index"},
		"without an image": {func(t *testing.T, s *site, _ []byte) []byte {
			if err := os.Remove(filepath.Join(s.dir, fileName(s.index.Images[0]))); err != nil {
				t.Fatal(err)
			}
			return s.bundle(t)
		}, code.BadSource, "has no images/"},
		"with a path out of it": {func(t *testing.T, _ *site, b []byte) []byte {
			return with(t, b, tar.Header{Typeflag: file, Name: "images/../../cron.gimg"})
		}, code.BadSource, `"images/../../cron.gimg"`},
		"with another file": {func(t *testing.T, _ *site, b []byte) []byte {
			return with(t, b, tar.Header{Typeflag: file, Name: "/etc/passwd"})
		}, code.BadSource, `"/etc/passwd"`},
		"with a link": {func(t *testing.T, _ *site, b []byte) []byte {
			return with(t, b, tar.Header{Typeflag: tar.TypeSymlink, Name: indexName, Linkname: "/etc/passwd"})
		}, code.BadSource, `"index.json"`},
		"with two indexes": {func(t *testing.T, _ *site, b []byte) []byte {
			return with(t, b, tar.Header{Typeflag: file, Name: indexName})
		}, code.BadSource, "duplicate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, path := newSite(t), filepath.Join(t.TempDir(), "site.tar")
			if err := os.WriteFile(path, c.change(t, s, s.bundle(t)), 0o600); err != nil {
				t.Fatal(err)
			}
			wantCode(t, s.sync(t, path), c.code, c.says)
		})
	}
}

// bundle returns a site as a bundle.
func (s *site) bundle(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "site.tar")
	if err := writeBundle(path, s.dir); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestOneSyncAtATimeFetches(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = lock(dir)
	wantCode(t, err, code.BadSource, "another sync")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	_ = second.Close()
}

func TestOnlyABundleOfTheSameKeyIsReplaced(t *testing.T) {
	t.Parallel()
	s, dir := newSite(t), t.TempDir()
	path := filepath.Join(dir, "site.tar")
	publish := func(seed []byte) error {
		copied := func(to string) error { return os.CopyFS(to, os.DirFS(s.dir)) }
		return bundleFile(path).write(t.Context(), seed, copied)
	}
	for range 2 {
		wantCode(t, publish(s.seed), "", "")
	}
	wantCode(t, publish(newSite(t).seed), code.BadSource, "so it is not replaced")
	if err := os.WriteFile(path, []byte("my tapes"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantCode(t, publish(s.seed), code.BadSource, "so it is not replaced")
	if left, err := os.ReadDir(dir); len(left) != 1 || err != nil {
		t.Errorf("left beside the bundle: %v (%v)", left, err)
	}
}

func TestASourceDeclaresAgentsAndNothingThatChangesServers(t *testing.T) {
	t.Parallel()
	s := &session{source: &sourcev1.Source{Name: strings.Repeat("a", 63)}, index: &sourcev1.Index{}}
	for text, says := range map[string]string{
		"agents: {a: {kind: daemon}}\nenvironments: {prod: {defaults: {a: {}}}}": "",
		"servers: {web-1: {labels: {a: b}}}":                                     `declares server "web-1"`,
		"channels: {lab: {}}":                                                    `declares channel "lab"`,
		"environments: {prod: {description: x}}":                                 `declares environment "prod"`,
		"environments: {prod: {wanted: {a: 1.0.0}}}":                             `versions of environment "prod"`,
	} {
		s.index.Declared = "format: 1\n" + text + "\n"
		set, err := s.set()
		if says != "" {
			wantCode(t, err, code.BadSource, says)
		} else if err != nil || len(set.Owner) != 63 {
			t.Errorf("%s: %v; the owner is %q", text, err, set.Owner)
		}
	}
}

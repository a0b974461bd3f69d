package image_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/image"
	"github.com/garrison-fleet/garrison/pkg/manifest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

const recipe = `
agent: cn-agent
version: 1.25.4
kind: daemon
os: linux
arch: amd64
description: Watches compute nodes.
tags: {team: compute}
run:
  command: bin/cn-agent
  args: [--state, "${state}"]
  env: {RACK: "${label.rack}"}
  takeover: overlap
  ready: {http: "http://127.0.0.1:8080/ready", timeout: 20s, soak: 1500ms}
  stop_timeout: 5s
  sockets: [{name: http, listen: "127.0.0.1:${label.port}"}, {name: admin, listen: ":9000"}]
`

// entry is a file, or with a link a symbolic link.
type entry struct {
	text, link string
	mode       os.FileMode
}

func tree(t *testing.T, entries map[string]entry) string {
	t.Helper()
	dir := t.TempDir()
	for name, e := range entries {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if e.link != "" {
			if err := os.Symlink(e.link, p); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(p, []byte(e.text), 0o600|e.mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func agentTree(t *testing.T) string {
	return tree(t, map[string]entry{
		"garrison.yaml": {text: recipe},
		"bin/cn-agent":  {text: "#!/bin/sh\nexec sleep 1000\n", mode: 0o100},
		"etc/conf":      {text: "a = 1\n", mode: 0o044},
		"etc/current":   {link: "../etc/conf"},
		"data":          {text: noise(3*topology.ChunkSize + 17)},
	})
}

// noise is text that does not compress, the same each time.
func noise(n int) string {
	var b bytes.Buffer
	sum := sha256.Sum256([]byte("noise"))
	for b.Len() < n {
		sum = sha256.Sum256(sum[:])
		b.Write(sum[:])
	}
	return b.String()[:n]
}

func build(t *testing.T, o image.BuildOptions) (*imagev1.Manifest, string) {
	t.Helper()
	o.Out = filepath.Join(t.TempDir(), "out.gimg")
	m, err := image.Build(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return m, o.Out
}

func open(t *testing.T, path string) *image.File {
	t.Helper()
	f, err := image.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func codeOf(err error) string { return fault.RefusalOf(err).GetCode() }

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	if have := codeOf(err); have != code || !fault.Is(err, fault.Invalid) {
		t.Fatalf("refused as %q (%v: %v), want %q", have, fault.KindOf(err), err, code)
	}
}

func TestABuiltImageIsWhatItsRecipeSays(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	m, path := build(t, image.BuildOptions{Dir: agentTree(t), At: at})
	if m.PublishedAt.AsTime() != at || len(m.Blob.ChunkDigests) != 4 || m.Blob.Entries != 6 {
		t.Fatalf("published %v, %d chunks, %d entries", m.PublishedAt, len(m.Blob.ChunkDigests), m.Blob.Entries)
	}
	want := &imagev1.Manifest{
		Id: manifest.ID(m), Agent: "cn-agent", Version: "1.25.4", Kind: agentv1.Kind_KIND_DAEMON,
		Platform: &serverv1.Platform{
			Os:   "linux",
			Arch: "amd64",
		}, Description: "Watches compute nodes.", Tags: map[string]string{"team": "compute"},
		Run: &imagev1.Run{
			Command: "bin/cn-agent", Args: []string{"--state", "${state}"},
			Env:      map[string]string{"RACK": "${label.rack}"},
			Takeover: imagev1.Takeover_TAKEOVER_OVERLAP, StopTimeoutMs: 5000,
			Ready: &imagev1.Ready{
				Probe:     &imagev1.Ready_Http{Http: "http://127.0.0.1:8080/ready"},
				TimeoutMs: 20000,
				SoakMs:    1500,
			},
			Sockets: []*imagev1.Socket{
				{Name: "http", Listen: "127.0.0.1:${label.port}"},
				{Name: "admin", Listen: ":9000"},
			},
		},
		Blob: m.Blob, PublishedAt: m.PublishedAt,
	}
	if d := cmp.Diff(want, m, protocmp.Transform()); d != "" {
		t.Fatal(d)
	}
	if d := cmp.Diff(m, open(t, path).Manifest(), protocmp.Transform()); d != "" {
		t.Fatalf("the file's manifest differs: %s", d)
	}
}

func TestARecipeSaysWhatItNeedsOfTheServerAndItsExecProbe(t *testing.T) {
	t.Parallel()
	m, _ := build(t, image.BuildOptions{Dir: tree(t, map[string]entry{
		"run":   {text: "x", mode: 0o100},
		"check": {text: "x", mode: 0o100},
		"garrison.yaml": {
			text: "executor_version: 1.4.0\nconflicts: [b, c]\nupgrades_from: ['>=0.5.0']\nskips: [0.6.0]\n" +
				"floor: 0.5.0\nrequires: {e: '>=2.0.0', d: ''}\n" + daemon(
				`ready: {exec: {command: check, args: ["--state", "${state}"]}, timeout: 5s}`),
		},
	})})
	want := &imagev1.Manifest{
		ExecutorVersion: "1.4.0",
		Conflicts:       []string{"b", "c"},
		UpgradesFrom:    []string{">=0.5.0"}, Skips: []string{"0.6.0"}, Floor: "0.5.0",
		Requires: []*imagev1.Requirement{{Agent: "d"}, {Agent: "e", Versions: ">=2.0.0"}},
		Run: &imagev1.Run{Command: "run", Ready: &imagev1.Ready{
			TimeoutMs: 5000,
			Probe: &imagev1.Ready_Exec{Exec: &imagev1.Exec{
				Command: "check", Args: []string{"--state", "${state}"},
			}},
		}},
	}
	have := &imagev1.Manifest{
		ExecutorVersion: m.ExecutorVersion, Conflicts: m.Conflicts, Run: m.Run,
		UpgradesFrom: m.UpgradesFrom, Skips: m.Skips, Floor: m.Floor, Requires: m.Requires,
	}
	if d := cmp.Diff(want, have, protocmp.Transform()); d != "" {
		t.Fatal(d)
	}
}

func TestARecipeSaysWhatIsRenderedAndRehearsed(t *testing.T) {
	t.Parallel()
	m, _ := build(t, image.BuildOptions{Dir: tree(t, map[string]entry{
		"run":      {text: "x", mode: 0o100},
		"etc/conf": {text: "level = {{.metadata.level}}"},
		"garrison.yaml": {
			text: daemon(
				"configs: [{template: etc/conf, path: a/b.conf, mode: 0440}, {template: etc/conf, path: a/c}]\n" +
					"  reload: signal\n  rehearsal: {command: run, args: ['${config}/a/b.conf', '${metadata.level}']}",
			),
		},
	})})
	want := &imagev1.Run{
		Command: "run", Reload: imagev1.Reload_RELOAD_SIGNAL,
		Configs: []*imagev1.Config{
			{Template: "etc/conf", Path: "a/b.conf", Mode: 0o440},
			{Template: "etc/conf", Path: "a/c"},
		},
		Rehearsal: &imagev1.Exec{Command: "run", Args: []string{"${config}/a/b.conf", "${metadata.level}"}},
	}
	if d := cmp.Diff(want, m.Run, protocmp.Transform()); d != "" {
		t.Fatal(d)
	}
}

func TestTheSameDirectoryGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	_, first := build(t, image.BuildOptions{Dir: agentTree(t)})
	_, second := build(t, image.BuildOptions{Dir: agentTree(t)})
	a, _ := os.ReadFile(first)
	b, _ := os.ReadFile(second)
	if !bytes.Equal(a, b) {
		t.Fatal("two builds differ")
	}
}

func TestTheIDDoesNotDependOnWhenItIsPublished(t *testing.T) {
	t.Parallel()
	dir := agentTree(t)
	a, _ := build(t, image.BuildOptions{Dir: dir, At: time.Unix(1, 0)})
	b, _ := build(t, image.BuildOptions{Dir: dir, At: time.Unix(2, 0)})
	if a.Id != b.Id {
		t.Fatalf("ids %s and %s", a.Id, b.Id)
	}
}

func TestOptionsWinOverTheRecipe(t *testing.T) {
	t.Parallel()
	m, _ := build(t, image.BuildOptions{Dir: agentTree(t), Version: "2.0.0-rc.1", OS: "freebsd", Arch: "arm64"})
	if m.Version != "2.0.0-rc.1" || m.Platform.Os != "freebsd" || m.Platform.Arch != "arm64" {
		t.Fatalf("built %s for %v", m.Version, m.Platform)
	}
}

func TestTheArchiveHoldsSortedNormalisedEntriesWithoutTheRecipe(t *testing.T) {
	t.Parallel()
	_, path := build(t, image.BuildOptions{Dir: agentTree(t)})
	f := open(t, path)
	var blob bytes.Buffer
	for n := range f.Chunks() {
		data, err := f.Chunk(n)
		if err != nil {
			t.Fatal(err)
		}
		blob.Write(data)
	}
	z, err := zstd.NewReader(&blob)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	var have []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.ModTime.Unix() != 0 || h.Uid != 0 || h.Gid != 0 || h.Uname+h.Gname != "" {
			t.Fatalf("%s has time %v and owner %d:%d", h.Name, h.ModTime, h.Uid, h.Gid)
		}
		have = append(have, h.FileInfo().Mode().String()+" "+h.Name+h.Linkname)
	}
	want := []string{
		"drwxr-xr-x bin/",
		"-rwxr-xr-x bin/cn-agent",
		"-rw-r--r-- data",
		"drwxr-xr-x etc/",
		"-rw-r--r-- etc/conf",
		"Lrwxrwxrwx etc/current../etc/conf",
	}
	if d := cmp.Diff(want, have); d != "" {
		t.Fatal(d)
	}
}

func TestVerifyAcceptsWhatBuildMade(t *testing.T) {
	t.Parallel()
	_, path := build(t, image.BuildOptions{Dir: agentTree(t)})
	if err := open(t, path).Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestVerifyStopsWhenItsContextIsDone(t *testing.T) {
	t.Parallel()
	_, path := build(t, image.BuildOptions{Dir: agentTree(t)})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := open(t, path).Verify(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestWriteCopiesAnImageFromItsChunks(t *testing.T) {
	t.Parallel()
	_, path := build(t, image.BuildOptions{Dir: agentTree(t)})
	f := open(t, path)
	copied := filepath.Join(t.TempDir(), "copy.gimg")
	chunk := func(_ context.Context, n int) ([]byte, error) { return f.Chunk(n) }
	if err := image.Write(t.Context(), copied, f.Manifest(), chunk); err != nil {
		t.Fatal(err)
	}
	a, _ := os.ReadFile(path)
	b, _ := os.ReadFile(copied)
	if !bytes.Equal(a, b) {
		t.Fatal("the copy differs")
	}
}

func TestWriteLeavesNothingBehindWhenAChunkIsWrong(t *testing.T) {
	t.Parallel()
	m, _ := build(t, image.BuildOptions{Dir: agentTree(t)})
	dir := t.TempDir()
	err := image.Write(t.Context(), filepath.Join(dir, "x.gimg"), m,
		func(context.Context, int) ([]byte, error) { return []byte("wrong"), nil })
	wantCode(t, err, code.WrongDigest)
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Fatalf("left behind: %v", left)
	}
}

func TestAnAgentWithoutFilesAndOneOfKindExternalAreRefused(t *testing.T) {
	t.Parallel()
	files := tree(t, map[string]entry{"garrison.yaml": {text: "agent: a\nversion: 1.0.0\nkind: files\n"}})
	_, err := image.Build(t.Context(), image.BuildOptions{Dir: files, Out: filepath.Join(t.TempDir(), "x.gimg")})
	wantCode(t, err, code.Empty)
	external := tree(t,
		map[string]entry{"garrison.yaml": {text: "agent: a\nversion: 1.0.0\nkind: external\n"}, "f": {text: "x"}})
	_, err = image.Build(t.Context(), image.BuildOptions{Dir: external, Out: filepath.Join(t.TempDir(), "x.gimg")})
	wantCode(t, err, code.UnsupportedKind)
}

func TestBuildRefusesAnOutputInsideTheDirectory(t *testing.T) {
	t.Parallel()
	dir := agentTree(t)
	_, err := image.Build(t.Context(), image.BuildOptions{Dir: dir, Out: filepath.Join(dir, "etc", "x.gimg")})
	wantCode(t, err, code.Outside)
}

func TestTheFileNameNamesAgentVersionAndPlatform(t *testing.T) {
	t.Parallel()
	m, _ := build(t, image.BuildOptions{Dir: agentTree(t)})
	if have := image.FileName(m); have != "cn-agent-1.25.4-linux-amd64.gimg" {
		t.Fatal(have)
	}
}

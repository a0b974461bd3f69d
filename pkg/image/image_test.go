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
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/image"
	"github.com/garrison-fleet/garrison/pkg/topology"
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
	m, err := image.Build(o)
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
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	m, path := build(t, image.BuildOptions{Dir: agentTree(t), At: at})
	if m.PublishedAt.AsTime() != at || len(m.Blob.ChunkDigests) != 4 || m.Blob.Entries != 6 {
		t.Fatalf("published %v, %d chunks, %d entries", m.PublishedAt, len(m.Blob.ChunkDigests), m.Blob.Entries)
	}
	want := &imagev1.Manifest{
		Id: image.ID(m), Agent: "cn-agent", Version: "1.25.4", Kind: agentv1.Kind_KIND_DAEMON,
		Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"}, Description: "Watches compute nodes.", Tags: map[string]string{"team": "compute"},
		Run: &imagev1.Run{
			Command: "bin/cn-agent", Args: []string{"--state", "${state}"}, Env: map[string]string{"RACK": "${label.rack}"},
			Takeover: imagev1.Takeover_TAKEOVER_OVERLAP, StopTimeoutMs: 5000,
			Ready:   &imagev1.Ready{Probe: &imagev1.Ready_Http{Http: "http://127.0.0.1:8080/ready"}, TimeoutMs: 20000, SoakMs: 1500},
			Sockets: []*imagev1.Socket{{Name: "http", Listen: "127.0.0.1:${label.port}"}, {Name: "admin", Listen: ":9000"}},
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

func TestTheSameDirectoryGivesTheSameBytes(t *testing.T) {
	_, first := build(t, image.BuildOptions{Dir: agentTree(t)})
	_, second := build(t, image.BuildOptions{Dir: agentTree(t)})
	a, _ := os.ReadFile(first)
	b, _ := os.ReadFile(second)
	if !bytes.Equal(a, b) {
		t.Fatal("two builds differ")
	}
}

func TestTheIDDoesNotDependOnWhenItIsPublished(t *testing.T) {
	dir := agentTree(t)
	a, _ := build(t, image.BuildOptions{Dir: dir, At: time.Unix(1, 0)})
	b, _ := build(t, image.BuildOptions{Dir: dir, At: time.Unix(2, 0)})
	if a.Id != b.Id {
		t.Fatalf("ids %s and %s", a.Id, b.Id)
	}
}

func TestOptionsWinOverTheRecipe(t *testing.T) {
	m, _ := build(t, image.BuildOptions{Dir: agentTree(t), Version: "2.0.0-rc.1", OS: "freebsd", Arch: "arm64"})
	if m.Version != "2.0.0-rc.1" || m.Platform.Os != "freebsd" || m.Platform.Arch != "arm64" {
		t.Fatalf("built %s for %v", m.Version, m.Platform)
	}
}

func TestTheArchiveHoldsSortedNormalisedEntriesWithoutTheRecipe(t *testing.T) {
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
	want := []string{"drwxr-xr-x bin/", "-rwxr-xr-x bin/cn-agent", "-rw-r--r-- data", "drwxr-xr-x etc/", "-rw-r--r-- etc/conf", "Lrwxrwxrwx etc/current../etc/conf"}
	if d := cmp.Diff(want, have); d != "" {
		t.Fatal(d)
	}
}

func TestVerifyAcceptsWhatBuildMade(t *testing.T) {
	_, path := build(t, image.BuildOptions{Dir: agentTree(t)})
	if err := open(t, path).Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestVerifyStopsWhenItsContextIsDone(t *testing.T) {
	_, path := build(t, image.BuildOptions{Dir: agentTree(t)})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := open(t, path).Verify(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestWriteCopiesAnImageFromItsChunks(t *testing.T) {
	_, path := build(t, image.BuildOptions{Dir: agentTree(t)})
	f := open(t, path)
	copied := filepath.Join(t.TempDir(), "copy.gimg")
	if err := image.Write(t.Context(), copied, f.Manifest(), func(_ context.Context, n int) ([]byte, error) { return f.Chunk(n) }); err != nil {
		t.Fatal(err)
	}
	a, _ := os.ReadFile(path)
	b, _ := os.ReadFile(copied)
	if !bytes.Equal(a, b) {
		t.Fatal("the copy differs")
	}
}

func TestWriteLeavesNothingBehindWhenAChunkIsWrong(t *testing.T) {
	m, _ := build(t, image.BuildOptions{Dir: agentTree(t)})
	dir := t.TempDir()
	err := image.Write(t.Context(), filepath.Join(dir, "x.gimg"), m, func(context.Context, int) ([]byte, error) { return []byte("wrong"), nil })
	wantCode(t, err, image.CodeWrongDigest)
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Fatalf("left behind: %v", left)
	}
}

func TestAnAgentWithoutFilesIsRefusedButAnExternalOneIsNot(t *testing.T) {
	files := tree(t, map[string]entry{"garrison.yaml": {text: "agent: a\nversion: 1.0.0\nkind: files\n"}})
	_, err := image.Build(image.BuildOptions{Dir: files, Out: filepath.Join(t.TempDir(), "x.gimg")})
	wantCode(t, err, image.CodeEmpty)
	build(t, image.BuildOptions{Dir: tree(t, map[string]entry{"garrison.yaml": {text: "agent: a\nversion: 1.0.0\nkind: external\n"}})})
}

func TestBuildRefusesAnOutputInsideTheDirectory(t *testing.T) {
	dir := agentTree(t)
	_, err := image.Build(image.BuildOptions{Dir: dir, Out: filepath.Join(dir, "etc", "x.gimg")})
	wantCode(t, err, image.CodeOutside)
}

func TestTheFileNameNamesAgentVersionAndPlatform(t *testing.T) {
	m, _ := build(t, image.BuildOptions{Dir: agentTree(t)})
	if have := image.FileName(m); have != "cn-agent-1.25.4-linux-amd64.gimg" {
		t.Fatal(have)
	}
}

func TestBuildRefuses(t *testing.T) {
	run := map[string]entry{"run": {text: "x", mode: 0o100}}
	for name, c := range map[string]struct {
		recipe string
		files  map[string]entry
		code   string
		says   string
	}{
		"a missing recipe":               {"", run, image.CodeNoRecipe, "garrison.yaml"},
		"a recipe that is not YAML":      {"a: [", run, image.CodeBadRecipe, "garrison.yaml"},
		"a recipe that is a list":        {"- a", run, image.CodeBadRecipe, "map"},
		"a key given twice":              {"agent: a\nagent: b", run, image.CodeBadRecipe, "agent"},
		"an unknown key":                 {"colour: red", run, image.CodeUnknownKey, "colour"},
		"an unknown key in run":          {"run: {comand: x}", run, image.CodeUnknownKey, "run.comand"},
		"an unknown key in ready":        {"run: {ready: {udp: x}}", run, image.CodeUnknownKey, "run.ready.udp"},
		"a key in other letters":         {"Agent: a", run, image.CodeUnknownKey, "Agent"},
		"an unknown key in a socket":     {"run: {sockets: [{name: a, port: 1}]}", run, image.CodeUnknownKey, "run.sockets.port"},
		"a socket of files":              {"agent: a\nversion: 1.0.0\nkind: files\nrun: {sockets: [{name: a, listen: ':1'}]}", run, image.CodeBadManifest, "daemon"},
		"a socket without a name":        {daemon("sockets: [{listen: ':1'}]"), run, image.CodeBadManifest, "name"},
		"a socket's bad name":            {daemon("sockets: [{name: 'a:b', listen: ':1'}]"), run, image.CodeBadManifest, "a:b"},
		"two sockets of one name":        {daemon("sockets: [{name: a, listen: ':1'}, {name: a, listen: ':2'}]"), run, image.CodeBadManifest, "before"},
		"two sockets at one address":     {daemon("sockets: [{name: a, listen: ':1'}, {name: b, listen: ':1'}]"), run, image.CodeBadManifest, "before"},
		"a socket without a port":        {daemon("sockets: [{name: a, listen: 127.0.0.1}]"), run, image.CodeBadManifest, "127.0.0.1"},
		"a socket at any port":           {daemon("sockets: [{name: a, listen: '127.0.0.1:0'}]"), run, image.CodeBadManifest, ":0"},
		"a socket at a named host":       {daemon("sockets: [{name: a, listen: 'localhost:${label.port}'}]"), run, image.CodeBadManifest, "localhost"},
		"a socket's unknown variable":    {daemon("sockets: [{name: a, listen: '${address}'}]"), run, image.CodeUnknownName, "${address}"},
		"a value of another type":        {"agent: [a]", run, image.CodeBadRecipe, "agent is of type list, want text"},
		"a version without quotes":       {"agent: a\nversion: 1.10", run, image.CodeBadRecipe, "version is of type number, want text, in quotes"},
		"a command with its arguments":   {"run: {command: [a, b]}", run, image.CodeBadRecipe, "run.command is of type list"},
		"an unknown kind":                {"agent: a\nversion: 1.0.0\nkind: service", run, image.CodeBadRecipe, "service"},
		"a bad agent name":               {"agent: A_b\nversion: 1.0.0\nkind: files", run, image.CodeBadAgentName, "A_b"},
		"no version":                     {"agent: a\nkind: files", run, image.CodeBadVersion, "semantic"},
		"a version with a v":             {"agent: a\nversion: v1.0.0\nkind: files", run, image.CodeBadVersion, "v1.0.0"},
		"a short version":                {"agent: a\nversion: \"1.0\"\nkind: files", run, image.CodeBadVersion, "1.0"},
		"an unknown platform":            {"agent: a\nversion: 1.0.0\nkind: files\nos: plan8", run, image.CodeBadPlatform, "plan8"},
		"an unknown takeover":            {daemon("takeover: steal"), run, image.CodeBadRecipe, "steal"},
		"a bad time":                     {daemon("stop_timeout: soon"), run, image.CodeBadRecipe, "soon"},
		"a time that is too long":        {daemon("ready: {soak: 48h}"), run, image.CodeBadRecipe, "48h"},
		"two probes":                     {daemon("ready: {notify: true, tcp: 'x:1'}"), run, image.CodeBadRecipe, "2 probes"},
		"a daemon without a command":     {"agent: a\nversion: 1.0.0\nkind: daemon", run, image.CodeBadManifest, "run.command"},
		"files with a command":           {"agent: a\nversion: 1.0.0\nkind: files\nrun: {command: run}", run, image.CodeBadManifest, "run.command"},
		"an absolute command":            {"agent: a\nversion: 1.0.0\nkind: daemon\nrun: {command: /bin/sh}", run, image.CodeOutside, "/bin/sh"},
		"a command outside":              {"agent: a\nversion: 1.0.0\nkind: daemon\nrun: {command: ../x}", run, image.CodeOutside, "../x"},
		"a command that is not there":    {"agent: a\nversion: 1.0.0\nkind: daemon\nrun: {command: walk}", run, image.CodeNoCommand, "walk"},
		"a command that is a directory":  {"agent: a\nversion: 1.0.0\nkind: daemon\nrun: {command: d}", map[string]entry{"d/x": {}}, image.CodeNoCommand, "not a file"},
		"a command not executable":       {daemon("args: []"), map[string]entry{"run": {text: "x"}}, image.CodeNoCommand, "executable"},
		"an unknown variable":            {daemon("args: ['${hostname}']"), run, image.CodeUnknownName, "${hostname}"},
		"a variable without an end":      {daemon("args: ['${state']"), run, image.CodeUnknownName, "${state"},
		"a bad environment name":         {daemon("env: {a-b: c}"), run, image.CodeBadManifest, "a-b"},
		"an absolute link":               {daemon("args: []"), map[string]entry{"run": run["run"], "l": {link: "/etc/passwd"}}, image.CodeOutside, "/etc/passwd"},
		"a link outside":                 {daemon("args: []"), map[string]entry{"run": run["run"], "d/l": {link: "../../x"}}, image.CodeOutside, "../../x"},
		"a link up behind another link":  {daemon("args: []"), map[string]entry{"run": run["run"], "d/e/m": {link: "../.."}, "d/e/l": {link: "m/../x"}}, image.CodeOutside, "m/../x"},
		"a command through such a link":  {"agent: a\nversion: 1.0.0\nkind: daemon\nrun: {command: l}", map[string]entry{"l": {link: "/bin/sh"}}, image.CodeNoCommand, "l"},
		"a name that holds a backslash":  {daemon("args: []"), map[string]entry{"run": run["run"], `a\b`: {}}, image.CodeSpecialFile, `a\\b`},
		"a description that is too long": {"agent: a\nversion: 1.0.0\nkind: files\ndescription: " + strings.Repeat("x", 2000), run, image.CodeBadManifest, "description"},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]entry{}
			for k, v := range c.files {
				files[k] = v
			}
			if c.recipe != "" {
				files["garrison.yaml"] = entry{text: c.recipe}
			}
			out := t.TempDir()
			_, err := image.Build(image.BuildOptions{Dir: tree(t, files), Out: filepath.Join(out, "x.gimg")})
			wantCode(t, err, c.code)
			if !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%q does not name %q", err, c.says)
			}
			if left, _ := os.ReadDir(out); len(left) != 0 {
				t.Fatalf("left behind: %v", left)
			}
		})
	}
}

func daemon(run string) string {
	return "agent: a\nversion: 1.0.0\nkind: daemon\nrun:\n  command: run\n  " + run + "\n"
}

func valid() *imagev1.Manifest {
	digest := sha256.Sum256([]byte("x"))
	m := &imagev1.Manifest{
		Agent: "a", Version: "1.0.0", Kind: agentv1.Kind_KIND_DAEMON, Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"},
		Run:  &imagev1.Run{Command: "run"},
		Blob: &imagev1.Blob{Digest: digest[:], SizeBytes: 1, ChunkSizeBytes: topology.ChunkSize, ChunkDigests: [][]byte{digest[:]}, UnpackedSizeBytes: 1, Entries: 1},
	}
	m.Id = image.ID(m)
	return m
}

func TestCheckRefuses(t *testing.T) {
	if err := image.Check(valid()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*imagev1.Manifest)
		code   string
	}{
		"an empty manifest":        {func(m *imagev1.Manifest) { proto.Reset(m) }, image.CodeBadAgentName},
		"a name":                   {func(m *imagev1.Manifest) { m.Agent = "a.b" }, image.CodeBadAgentName},
		"a version":                {func(m *imagev1.Manifest) { m.Version = "latest" }, image.CodeBadVersion},
		"no platform":              {func(m *imagev1.Manifest) { m.Platform = nil }, image.CodeBadPlatform},
		"a kind":                   {func(m *imagev1.Manifest) { m.Kind = 77 }, image.CodeBadManifest},
		"no kind":                  {func(m *imagev1.Manifest) { m.Kind = 0 }, image.CodeBadManifest},
		"no run":                   {func(m *imagev1.Manifest) { m.Run = nil }, image.CodeBadManifest},
		"a takeover":               {func(m *imagev1.Manifest) { m.Run.Takeover = 9 }, image.CodeBadManifest},
		"a stop timeout":           {func(m *imagev1.Manifest) { m.Run.StopTimeoutMs = 1 << 30 }, image.CodeBadManifest},
		"a zero byte":              {func(m *imagev1.Manifest) { m.Run.Args = []string{"a\x00"} }, image.CodeBadManifest},
		"too many words":           {func(m *imagev1.Manifest) { m.Run.Args = make([]string, 5000) }, image.CodeBadManifest},
		"too long an argument":     {func(m *imagev1.Manifest) { m.Run.Args = []string{strings.Repeat("x", 1<<17)} }, image.CodeBadManifest},
		"no blob":                  {func(m *imagev1.Manifest) { m.Blob = nil }, image.CodeBadManifest},
		"a short digest":           {func(m *imagev1.Manifest) { m.Blob.Digest = []byte{1} }, image.CodeBadManifest},
		"a short chunk digest":     {func(m *imagev1.Manifest) { m.Blob.ChunkDigests[0] = []byte{1} }, image.CodeBadManifest},
		"no bytes":                 {func(m *imagev1.Manifest) { m.Blob.SizeBytes = 0 }, image.CodeBadManifest},
		"more than 4 GiB":          {func(m *imagev1.Manifest) { m.Blob.SizeBytes = image.MaxSize + 1 }, image.CodeBadManifest},
		"no chunk size":            {func(m *imagev1.Manifest) { m.Blob.ChunkSizeBytes = 0 }, image.CodeBadManifest},
		"too large chunks":         {func(m *imagev1.Manifest) { m.Blob.ChunkSizeBytes = topology.ChunkSize + 1 }, image.CodeBadManifest},
		"too small chunks":         {func(m *imagev1.Manifest) { m.Blob.ChunkSizeBytes, m.Blob.SizeBytes = 1, 1<<20 }, image.CodeBadManifest},
		"a missing chunk digest":   {func(m *imagev1.Manifest) { m.Blob.SizeBytes = topology.ChunkSize + 1 }, image.CodeBadManifest},
		"too large when unpacked":  {func(m *imagev1.Manifest) { m.Blob.UnpackedSizeBytes = image.MaxUnpacked + 1 }, image.CodeBadManifest},
		"too many entries":         {func(m *imagev1.Manifest) { m.Blob.Entries = image.MaxEntries + 1 }, image.CodeBadManifest},
		"an empty tag":             {func(m *imagev1.Manifest) { m.Tags = map[string]string{"": "x"} }, image.CodeBadManifest},
		"an id of something else":  {func(m *imagev1.Manifest) { m.Version = "1.0.1" }, image.CodeWrongID},
		"a variable nobody fills":  {func(m *imagev1.Manifest) { m.Run.Env = map[string]string{"A": "${}"} }, image.CodeUnknownName},
		"a command leading out":    {func(m *imagev1.Manifest) { m.Run.Command = "a/../../b" }, image.CodeOutside},
		"a command with backslash": {func(m *imagev1.Manifest) { m.Run.Command = `a\b` }, image.CodeOutside},
	} {
		t.Run(name, func(t *testing.T) {
			m := valid()
			c.change(m)
			wantCode(t, image.Check(m), c.code)
		})
	}
}

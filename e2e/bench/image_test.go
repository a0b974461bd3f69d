package bench

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/sample"
	"github.com/garrison-fleet/garrison/pkg/image"
)

const (
	imageFiles  = 1300
	imageRounds = 5
)

// measureImage installs a big image on a server, and does by hand with the same blob what
// a person would do: check its digest, unpack it, sync the disk.
func measureImage(b *testing.B) []figure {
	w, server := oneServer(b)
	dir := filepath.Join(w.Dir, "bulk")
	bulk(b, dir, asked.scaled(imageFiles))
	idle := must(rig.Uses(server.Executor.Pid()))(b)
	var blob blobFile
	g := brings{parts: map[taskv1.Step][]float64{}}
	for round := range imageRounds {
		agent := fmt.Sprintf("bulk-%d", round)
		blob = importBulk(b, w, dir, agent)
		g.round(b, w, server.Executor.Pid(), blob, agent)
	}
	peak := must(rig.Uses(server.Executor.Pid()))(b)
	name := fmt.Sprintf("image of %.0f MB (%.0f MB in %d files): fetch, verify, stage, MB/s", blob.mb, blob.unpackedMB,
		asked.scaled(imageFiles))
	return append(g.figures(name, blob.mb), figure{
		"executor, most resident while it does that, MB",
		fmt.Sprintf("%.1f", peak.PeakKB/1024),
		fmt.Sprintf("before: %.1f", idle.PeakKB/1024),
		"",
		"<= 64",
	})
}

// brings holds the seconds of an image's way to the disk.
type brings struct {
	ours, hand, oursCPU, handCPU []float64
	parts                        map[taskv1.Step][]float64
}

// round unpacks by hand and then installs.
func (g *brings) round(b *testing.B, w *world, pid int, blob blobFile, agent string) {
	took, cpu := byHand(b, blob.path, filepath.Join(w.Dir, "by-hand-"+agent))
	before := must(rig.Uses(pid))(b)
	w.ok("install", agent+"@1.0.0", "--on", "all", "--at-once")
	t := lastTask(b, w, agent, taskv1.State_STATE_SUCCEEDED)
	after := must(rig.Uses(pid))(b)
	g.hand, g.ours = append(g.hand, took), append(g.ours, seconds(t, brought...))
	g.handCPU, g.oursCPU = append(g.handCPU, cpu), append(g.oursCPU, (after.CPU-before.CPU).Seconds())
	for _, s := range brought {
		g.parts[s] = append(g.parts[s], seconds(t, s))
	}
}

func (g *brings) figures(name string, mb float64) []figure {
	perSecond := func(took []float64) (out []float64) {
		for _, t := range took {
			out = append(out, mb/t)
		}
		return out
	}
	ours, hand := perSecond(g.ours), perSecond(g.hand)
	figures := []figure{
		{
			name,
			spread(ours, "%.0f"),
			"sha256sum; tar --zstd -x; sync -f: " + spread(hand, "%.0f"),
			ratio(median(ours), median(hand)),
			">= 0.8",
		},
		{
			"  the same, CPU s of the executor",
			spread(g.oursCPU, "%.2f"),
			"by hand: " + spread(g.handCPU, "%.2f"),
			ratio(median(g.oursCPU), median(g.handCPU)),
			"",
		},
	}
	for _, s := range brought {
		figures = append(figures, figure{"  of it " + stepName(s) + ", s", spread(g.parts[s], "%.2f"), "", "", ""})
	}
	return figures
}

// brought lists the steps that bring an image to a server's disk.
var brought = []taskv1.Step{taskv1.Step_STEP_FETCH, taskv1.Step_STEP_VERIFY, taskv1.Step_STEP_STAGE}

// importBulk creates an image of a directory for an agent of its own, so that a server gets
// new content in each round and deletes nothing meanwhile: an inode that was just deleted
// slows down the creation of the next file.
func importBulk(b *testing.B, w *world, dir, agent string) blobFile {
	recipe := "agent: " + agent + "\nversion: 1.0.0\nkind: files\n"
	check(b, errors.Join(
		os.WriteFile(filepath.Join(dir, "garrison.yaml"), []byte(recipe), 0o600),
		os.WriteFile(filepath.Join(dir, "AGENT"), []byte(agent), 0o600)))
	w.ok("agent", "create", agent, "--kind", "files")
	check(b, sample.Activate(b.Context(), w.CLI, dir))
	return blobOf(b, dir+".gimg", filepath.Join(w.Dir, "blob-"+agent))
}

// byHand returns the seconds that it takes without Garrison, of the clock and of the CPU.
func byHand(b *testing.B, blob, dir string) (took, cpu float64) {
	check(b, os.MkdirAll(dir, 0o700))
	began := time.Now()
	unpack := []string{"tar", "--zstd", "-xf", blob, "-C", dir}
	for _, args := range [][]string{{"sha256sum", blob}, unpack, {"sync", "-f", dir}} {
		cmd := exec.CommandContext(b.Context(), args[0], args[1:]...)
		run(b, cmd)
		cpu += (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds() // with its children
	}
	return time.Since(began).Seconds(), cpu
}

type blobFile struct {
	path           string
	mb, unpackedMB float64
}

// blobOf writes the blob of an image file to a file of its own.
func blobOf(b *testing.B, file, path string) blobFile {
	f := must(image.Open(file))(b)
	defer func() { _ = f.Close() }()
	out := must(os.Create(path))(b)
	defer func() { check(b, out.Close()) }()
	for n := range f.Chunks() {
		must(out.Write(must(f.Chunk(n))(b)))(b)
	}
	m := f.Manifest().GetBlob()
	check(b, out.Sync())
	return blobFile{path, float64(m.GetSizeBytes()) / 1e6, float64(m.GetUnpackedSizeBytes()) / 1e6}
}

// bulk writes a directory like that of a big agent: two programs that are a third of it, and
// many files of a few to some hundred KiB. About half of it does not compress.
func bulk(b *testing.B, dir string, files int) {
	r := rand.New(rand.NewPCG(1, 2)) // the same in each run
	for n := range files {
		name, size := fmt.Sprintf("lib/%02d/%04d", n%40, n), 4<<10+r.IntN(160<<10)
		if n < 2 {
			name, size = fmt.Sprintf("bin/%d", n), files*(18<<10)
		}
		mixed(b, r, filepath.Join(dir, name), size)
	}
}

// mixed writes a file of noise and text, in blocks.
func mixed(b *testing.B, r *rand.Rand, path string, size int) {
	check(b, os.MkdirAll(filepath.Dir(path), 0o700))
	f := must(os.Create(path))(b)
	w := bufio.NewWriterSize(f, 64<<10)
	defer func() { check(b, errors.Join(w.Flush(), f.Close())) }()
	for left := size; left > 0; {
		block := make([]byte, min(left, 512+r.IntN(8<<10)))
		if r.IntN(2) == 0 {
			for i := range block {
				block[i] = byte(r.Uint32())
			}
		} else {
			for n := 0; n < len(block); {
				n += copy(block[n:], words[r.IntN(len(words))])
			}
		}
		must(w.Write(block))(b)
		left -= len(block)
	}
}

var words = strings.SplitAfter(
	"the server says that each agent of a fleet is at its version "+
		"and another one waits for what was asked before it starts again ",
	" ",
)

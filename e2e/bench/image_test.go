package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
func measureImage(ctx context.Context, s settings) (_ []figure, err error) {
	w, server, err := oneServer(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	dir := filepath.Join(w.Dir, "bulk")
	if err := bulk(dir, s.scaled(imageFiles)); err != nil {
		return nil, err
	}
	idle, err := rig.Uses(server.Executor.Pid())
	if err != nil {
		return nil, err
	}
	var blob blobFile
	b := brings{parts: map[taskv1.Step][]float64{}}
	for round := range imageRounds {
		agent := fmt.Sprintf("bulk-%d", round)
		if blob, err = importBulk(ctx, w, dir, agent); err != nil {
			return nil, err
		}
		if err := b.round(ctx, w, server.Executor.Pid(), blob, agent); err != nil {
			return nil, err
		}
	}
	peak, err := rig.Uses(server.Executor.Pid())
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("image of %.0f MB (%.0f MB in %d files): fetch, verify, stage, MB/s", blob.mb, blob.unpackedMB,
		s.scaled(imageFiles))
	figures := b.figures(name, blob.mb)
	return append(figures, figure{
		"executor, most resident while it does that, MB",
		fmt.Sprintf("%.1f", peak.PeakKB/1024),
		fmt.Sprintf("before: %.1f", idle.PeakKB/1024),
		"",
		"<= 64",
	}), nil
}

// brings holds the seconds of an image's way to the disk.
type brings struct {
	ours, hand, oursCPU, handCPU []float64
	parts                        map[taskv1.Step][]float64
}

// round unpacks by hand and then installs.
func (b *brings) round(ctx context.Context, w *world, pid int, blob blobFile, agent string) error {
	took, cpu, err := byHand(ctx, blob.path, filepath.Join(w.Dir, "by-hand-"+agent))
	if err != nil {
		return err
	}
	before, err := rig.Uses(pid)
	if err != nil {
		return err
	}
	if _, err := w.CLI(ctx, "install", agent+"@1.0.0", "--on", "all", "--at-once"); err != nil {
		return err
	}
	t, err := lastTask(ctx, w, agent, taskv1.State_STATE_SUCCEEDED)
	if err != nil {
		return err
	}
	after, err := rig.Uses(pid)
	if err != nil {
		return err
	}
	b.hand, b.ours = append(b.hand, took), append(b.ours, seconds(t, brought...))
	b.handCPU, b.oursCPU = append(b.handCPU, cpu), append(b.oursCPU, (after.CPU-before.CPU).Seconds())
	for _, s := range brought {
		b.parts[s] = append(b.parts[s], seconds(t, s))
	}
	return nil
}

func (b *brings) figures(name string, mb float64) []figure {
	perSecond := func(took []float64) (out []float64) {
		for _, t := range took {
			out = append(out, mb/t)
		}
		return out
	}
	ours, hand := perSecond(b.ours), perSecond(b.hand)
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
			spread(b.oursCPU, "%.2f"),
			"by hand: " + spread(b.handCPU, "%.2f"),
			ratio(median(b.oursCPU), median(b.handCPU)),
			"",
		},
	}
	for _, s := range brought {
		figures = append(figures, figure{"  of it " + stepName(s) + ", s", spread(b.parts[s], "%.2f"), "", "", ""})
	}
	return figures
}

// brought lists the steps that bring an image to a server's disk.
var brought = []taskv1.Step{taskv1.Step_STEP_FETCH, taskv1.Step_STEP_VERIFY, taskv1.Step_STEP_STAGE}

// importBulk creates an image of a directory for an agent of its own, so that a server gets
// new content in each round and deletes nothing meanwhile: an inode that was just deleted
// slows down the creation of the next file.
func importBulk(ctx context.Context, w *world, dir, agent string) (b blobFile, err error) {
	recipe := "agent: " + agent + "\nversion: 1.0.0\nkind: files\n"
	err = errors.Join(
		os.WriteFile(filepath.Join(dir, "garrison.yaml"), []byte(recipe), 0o600),
		os.WriteFile(filepath.Join(dir, "AGENT"), []byte(agent), 0o600))
	if err != nil {
		return b, err
	}
	if _, err := w.CLI(ctx, "agent", "create", agent, "--kind", "files"); err != nil {
		return b, err
	}
	if err := sample.Activate(ctx, w.CLI, dir); err != nil {
		return b, err
	}
	return blobOf(dir+".gimg", filepath.Join(w.Dir, "blob-"+agent))
}

// byHand returns the seconds that it takes without Garrison, of the clock and of the CPU.
func byHand(ctx context.Context, blob, dir string) (took, cpu float64, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, 0, err
	}
	began := time.Now()
	unpack := []string{"tar", "--zstd", "-xf", blob, "-C", dir}
	for _, args := range [][]string{{"sha256sum", blob}, unpack, {"sync", "-f", dir}} {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return 0, 0, fmt.Errorf("%s: %w: %s", args[0], err, out)
		}
		cpu += (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds() // with its children
	}
	return time.Since(began).Seconds(), cpu, nil
}

type blobFile struct {
	path           string
	mb, unpackedMB float64
}

// blobOf writes the blob of an image file to a file of its own.
func blobOf(file, path string) (b blobFile, err error) {
	f, err := image.Open(file)
	if err != nil {
		return b, err
	}
	defer func() { _ = f.Close() }()
	out, err := os.Create(path)
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	for n := range f.Chunks() {
		data, err := f.Chunk(n)
		if err != nil {
			return b, err
		}
		if _, err := out.Write(data); err != nil {
			return b, err
		}
	}
	m := f.Manifest().GetBlob()
	return blobFile{path, float64(m.GetSizeBytes()) / 1e6, float64(m.GetUnpackedSizeBytes()) / 1e6}, out.Sync()
}

// bulk writes a directory like that of a big agent: two programs that are a third of it, and
// many files of a few to some hundred KiB. About half of it does not compress.
func bulk(dir string, files int) error {
	r := rand.New(rand.NewPCG(1, 2)) // the same in each run
	for n := range files {
		name, size := fmt.Sprintf("lib/%02d/%04d", n%40, n), 4<<10+r.IntN(160<<10)
		if n < 2 {
			name, size = fmt.Sprintf("bin/%d", n), files*(18<<10)
		}
		if err := mixed(r, filepath.Join(dir, name), size); err != nil {
			return err
		}
	}
	return nil
}

// mixed writes a file of noise and text, in blocks.
func mixed(r *rand.Rand, path string, size int) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 64<<10)
	defer func() { err = errors.Join(err, w.Flush(), f.Close()) }()
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
		if _, err := w.Write(block); err != nil {
			return err
		}
		left -= len(block)
	}
	return nil
}

var words = strings.SplitAfter(
	"the server says that each agent of a fleet is at its version "+
		"and another one waits for what was asked before it starts again ",
	" ",
)

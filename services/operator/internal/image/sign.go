package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/image"
	"github.com/garrison-fleet/garrison/pkg/regular"
	"github.com/garrison-fleet/garrison/pkg/seal"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

func keyCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "key FILE", Short: "Create a key that signs images.", Args: cli.Exactly("FILE"),
		Long: "Create a key that signs images. The secret half is written to FILE, which must not exist; the " +
			"public half is printed.\n" +
			"A server that is given the public half refuses every image without its signature.",
		Example: "  garrison image key release.key\n" +
			"  garrison image build ./beacon --key release.key\n" +
			"  garrisond --data DIR --image-key PUBLIC-HALF",
		RunE: func(_ *cobra.Command, a []string) error {
			public, seed, err := seal.NewKey()
			if err != nil {
				return err
			}
			if err := writeNew(a[0], append(seed, '\n')); err != nil {
				return err
			}
			env.Say("the secret half is in %s; keep it only where images are built", a[0])
			_, err = fmt.Fprintln(env.Out, public)
			return err
		},
	}
}

// writeNew writes a secret to a new file. On an error no file is left.
func writeNew(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists, and a key is never overwritten. Try: another name", path)
	}
	if err != nil {
		return fmt.Errorf("write the key: %w", err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// readKey reads the secret half of a key.
func readKey(path string) ([]byte, error) {
	seed, err := regular.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New(fault.Messagef("--key: no file %s. Try: garrison image key %s",
			path, path))
	}
	if err != nil {
		return nil, fmt.Errorf("--key: %w", err)
	}
	return seed, nil
}

func signCommand(env *cli.Env) *cobra.Command {
	var key string
	var dry bool
	c := &cobra.Command{
		Use: "sign FILE", Short: "Sign an image file; signatures of other keys stay.", Args: cli.Exactly("FILE"),
		Example: "  garrison image sign beacon.gimg --key release.key",
		RunE: func(c *cobra.Command, a []string) error {
			if key == "" {
				return cli.Usage("--key is missing. Try: garrison image sign FILE --key KEYFILE")
			}
			seed, err := readKey(key)
			if err != nil {
				return err
			}
			if dry {
				return wouldSign(env, a[0], seed)
			}
			m, err := image.SignFile(c.Context(), a[0], seed)
			if err != nil {
				return err
			}
			return cli.Changed(env, manifestListing, m, "%s is signed by %s", a[0], display.Signers(m))
		},
	}
	cli.TextVar(c.Flags(), &key, "key", cli.NotEmpty("file with a key"),
		"the `FILE` with the secret half of a key, from garrison image key")
	c.Flags().BoolVar(&dry, "dry-run", false, "show the image with its signatures; write nothing")
	return c
}

// wouldSign shows an image file as it would be signed.
func wouldSign(env *cli.Env, path string, seed []byte) error {
	f, err := image.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	m := f.Manifest()
	if err := seal.Sign(m, seed); err != nil {
		return err
	}
	return cli.Changed(env, manifestListing, m, "would sign %s, which is then signed by %s", path, display.Signers(m))
}

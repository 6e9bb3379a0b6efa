package node

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A member in a pod has the root as its home folder and cannot write there.
func TestEnsureHomeReplacesAHomeThatCannotBeWrittenTo(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(blocked, nil, 0o600)) // a file: not even root can make a folder in it
	t.Setenv("HOME", blocked)
	t.Setenv("TMPDIR", t.TempDir())

	require.NoError(t, ensureHome())
	home, err := os.UserHomeDir()
	require.NoError(t, err)
	require.NotEqual(t, blocked, home)
	require.NoError(t, os.MkdirAll(filepath.Join(home, ".goakt", "cluster"), 0o755))
}

func TestEnsureHomeKeepsAHomeThatIsFine(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	require.NoError(t, ensureHome())
	require.Equal(t, home, os.Getenv("HOME"))
	left, err := os.ReadDir(home)
	require.NoError(t, err)
	require.Empty(t, left)
}

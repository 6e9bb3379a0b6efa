package main

import "testing"

// TestEveryMutantApplies: each text to be changed occurs once.
func TestEveryMutantApplies(t *testing.T) {
	t.Chdir("../../..")
	dir := t.TempDir()
	for i, m := range mutants {
		if _, err := apply(dir, i, m); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

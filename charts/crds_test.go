package charts_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

const policy = "helm.sh/resource-policy"

func TestCRDsAreThoseOfConfig(t *testing.T) {
	var want []*apiextensionsv1.CustomResourceDefinition
	files, err := filepath.Glob("../config/crd/bases/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 2)
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		want = append(want, all[*apiextensionsv1.CustomResourceDefinition](decode(t, content))...)
	}

	for name, test := range map[string]struct{ values, policy string }{
		"kept by default":           {"", "keep"},
		"deleted with keep: false":  {"keep: false", ""},
		"kept when a chart says so": {"{keep: true, global: {x: 1}}", "keep"},
	} {
		t.Run(name, func(t *testing.T) {
			got := all[*apiextensionsv1.CustomResourceDefinition](mustTemplate(t, crdChart, test.values))
			require.Len(t, got, len(want))
			for _, crd := range got {
				require.Equal(t, test.policy, crd.Annotations[policy])
				delete(crd.Annotations, policy)
			}
			require.Empty(t, cmp.Diff(want, got))
		})
	}
}

func TestWrongValuesOfTheCRDChartAreRefused(t *testing.T) {
	for _, values := range []string{"keep: yes please", "kept: true"} {
		_, err := helmTemplate(t, crdChart, values)
		require.ErrorContains(t, err, "values don't meet the specifications of the schema")
	}
}

package producer

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/controllers/apply"
	"github.com/workpull/operator/controllers/children"
)

// state is everything that the plan and the status depend on.
type state struct {
	now        time.Time
	producer   *v1alpha1.Producer // with defaults
	invalid    field.ErrorList
	children   []apply.Observed // in the order in which they are applied
	deployment *appsv1.Deployment
	activePod  string // the ready pod that serves the intake, or ""
}

// observe reads the state.
func (r *Reconciler) observe(ctx context.Context, producer *v1alpha1.Producer) (state, error) {
	producer.SetDefaults()
	s := state{now: r.Clock.Now(), producer: producer, invalid: producer.Validate()}
	if len(s.invalid) == 0 {
		if err := r.observeChildren(ctx, &s); err != nil {
			return s, err
		}
	}
	pod, err := r.observeActivePod(ctx, producer)
	s.activePod = pod
	return s, err
}

func (r *Reconciler) observeChildren(ctx context.Context, s *state) error {
	deployment, err := children.Deployment(s.producer, r.Image)
	if err != nil {
		return err
	}
	wanted := children.ProducerAccount(s.producer)
	wanted = append(wanted, children.ClusterService(s.producer), children.IntakeService(s.producer), deployment)
	for _, child := range wanted {
		o, err := apply.Observe(ctx, r.Client, r.Live, s.producer, child)
		if err != nil {
			return err
		}
		s.children = append(s.children, o)
		if live, ok := o.Live.(*appsv1.Deployment); ok && !o.Foreign {
			s.deployment = live
		}
	}
	return nil
}

// observeActivePod finds the ready pod that the intake Service selects.
func (r *Reconciler) observeActivePod(ctx context.Context, producer *v1alpha1.Producer) (string, error) {
	selector := children.ProducerSelector(producer.Name)
	selector[v1alpha1.LabelRole] = v1alpha1.RoleActive
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.InNamespace(producer.Namespace), client.MatchingLabels(selector)); err != nil {
		return "", fmt.Errorf("list producer pods: %w", err)
	}
	var ready []string
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp == nil && podReady(&pods.Items[i]) {
			ready = append(ready, pods.Items[i].Name)
		}
	}
	if len(ready) == 0 {
		return "", nil
	}
	return slices.Min(ready), nil
}

func podReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

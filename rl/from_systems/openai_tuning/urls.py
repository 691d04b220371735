"""Addresses of OpenAI's fine-tuning API, with and without a last slash."""

from django.urls import URLPattern, path, re_path
from rest_framework.views import APIView

from rl.from_systems.openai_tuning import jobs
from rl.from_systems.openai_tuning.calls import UnknownCall
from rl.from_systems.openai_tuning.files import FileCall, FileContent, FileList
from rl.from_systems.openai_tuning.graders.calls import GraderRun, GraderValidate
from rl.from_systems.openai_tuning.uploads import UploadCancel, UploadComplete, UploadList, UploadParts


def _paths(*calls: tuple[str, type[APIView]]) -> list[URLPattern]:
    """``{id}`` stands for an id, which the call gets as ``name``."""
    routes = ((f"v1/{route.replace('{id}', '<str:name>')}", view.as_view()) for route, view in calls)
    return [path(f"{route}{end}", view) for route, view in routes for end in ("", "/")]


urlpatterns = [
    *_paths(
        ("models/{id}", jobs.TunedModel),
        ("fine_tuning/jobs", jobs.JobList),
        ("fine_tuning/jobs/{id}", jobs.JobDetail),
        ("fine_tuning/jobs/{id}/cancel", jobs.JobCancel),
        ("fine_tuning/jobs/{id}/pause", jobs.JobPause),
        ("fine_tuning/jobs/{id}/resume", jobs.JobResume),
        ("fine_tuning/jobs/{id}/events", jobs.JobEvents),
        ("fine_tuning/jobs/{id}/checkpoints", jobs.JobCheckpoints),
        ("fine_tuning/checkpoints/{id}/permissions", jobs.CheckpointPermissions),
        ("fine_tuning/checkpoints/{id}/permissions/<str:permission>", jobs.CheckpointPermission),
        ("fine_tuning/alpha/graders/run", GraderRun),
        ("fine_tuning/alpha/graders/validate", GraderValidate),
        ("files", FileList),
        ("files/{id}", FileCall),
        ("files/{id}/content", FileContent),
        ("uploads", UploadList),
        ("uploads/{id}/parts", UploadParts),
        ("uploads/{id}/complete", UploadComplete),
        ("uploads/{id}/cancel", UploadCancel),
    ),
    re_path(r"^v1/(?:files|uploads|fine_tuning)(?:/|$)", UnknownCall.as_view()),
]
